"""Spec, random numbers and topologies of drawn fleets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.errors import ConfigurationError
from penstock.plans.plan_json.to_topology_lines import in_list, json_object, quoted
from penstock.plans.tables import TABLES, TRANSFORMATIONS
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.topologies_of_lines import XXHASH64_SEED, topology_id
from penstock.plans.vocabulary import (
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    Kind,
    ManagedMemoryUseCase,
    TopologyForm,
)

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LONGEST = 31
"""Bytes of a text; longer texts are hashed differently, which no salt needs."""


def hash_longs(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return the hashes of 64-bit integers, each with its own seed."""
    words = np.ascontiguousarray(values).view(np.uint64)
    return _finished(_with_word(seeds + _PRIME_5 + np.uint64(8), words))


def hash_text(text: bytes, seeds: np.ndarray) -> np.ndarray:
    """Return the hashes of one text of at most 31 bytes under many seeds."""
    assert len(text) <= _LONGEST
    hashes = seeds + _PRIME_5 + np.uint64(len(text))
    place = 0
    while place + 8 <= len(text):
        word = np.frombuffer(text, "<u8", 1, place).astype(np.uint64)
        hashes, place = _with_word(hashes, word), place + 8
    if place + 4 <= len(text):
        half = np.frombuffer(text, "<u4", 1, place).astype(np.uint64)
        hashes, place = _rotated(hashes ^ half * _PRIME_1, 23) * _PRIME_2 + _PRIME_3, place + 4
    for byte in text[place:]:
        hashes = _rotated(hashes ^ np.array([byte], np.uint64) * _PRIME_5, 11) * _PRIME_1
    return _finished(hashes)


def _with_word(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ _rotated(words * _PRIME_2, 31) * _PRIME_1, 27) * _PRIME_1 + _PRIME_4


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(hashes: np.ndarray) -> np.ndarray:
    once = (hashes ^ (hashes >> np.uint64(33))) * _PRIME_2
    twice = (once ^ (once >> np.uint64(29))) * _PRIME_3
    finished: np.ndarray = twice ^ (twice >> np.uint64(32))
    return finished


Draw = Callable[..., pl.Expr]
"""draw(salt, *keys): a double in [0, 1), the same for the same seed, salt and keys (integers)."""


def draws(seed: int) -> Draw:
    """Return the Draw of a seed, the upper 52 bits of Spark's xxhash64(seed, keys, salt)."""

    def draw(salt: str, *keys: pl.Expr) -> pl.Expr:
        hashed = _hashed(seed, salt, keys, lambda hashes: (hashes >> np.uint64(12)) * 2.0**-52, pl.Float64)
        return hashed

    return draw


def hexadecimal(seed: int, salt: str, *keys: pl.Expr) -> pl.Expr:
    """Return all 64 bits of the hash of a draw, as 16 lower-case hex digits."""

    def digits(hashes: np.ndarray) -> np.ndarray:
        return np.frombuffer(hashes.astype(">u8").tobytes().hex().encode(), "S16").astype("U16")

    return _hashed(seed, salt, keys, digits, pl.String)


def below(draw: pl.Expr, bound: pl.Expr | int) -> pl.Expr:
    """Return the draw as an integer in [0, bound)."""
    return (draw * bound).floor().cast(pl.Int32)


def pick(draw: pl.Expr, values: Sequence[str | int], share: float | pl.Expr = 1.0) -> pl.Expr:
    """Return one of `values`, all equally likely, if the draw is below `share`; arbitrary otherwise."""
    position = below(draw / share, len(values)).clip(upper_bound=len(values) - 1)
    kind = pl.Int32 if isinstance(values[0], int) else pl.String
    return position.replace_strict(list(range(len(values))), list(values), return_dtype=kind)


def pick_weighted(draw: pl.Expr, weights: Sequence[tuple[str, float]]) -> pl.Expr:
    """Return one of the values of (value, weight); weights are relative to their sum."""
    total = sum(weight for _, weight in weights)
    bounds = accumulate(weight for _, weight in weights)
    *bounded, (rest, _) = [(str(value), bound) for (value, _), bound in zip(weights, bounds, strict=True)]
    picked = pl.lit(rest)
    for value, bound in reversed(bounded):
        picked = pl.when(draw < bound / total).then(pl.lit(value)).otherwise(picked)
    return picked


def _hashed(
    seed: int,
    salt: str,
    keys: Sequence[pl.Expr],
    convert: Callable[[np.ndarray], np.ndarray],
    kind: type[pl.DataType],
) -> pl.Expr:
    """xxhash64(seed, keys, salt), converted by `convert`; arbitrary if a key is null."""

    def hashed(columns: Sequence[pl.Series]) -> pl.Series:
        hashes = hash_longs(np.array([seed], np.int64), np.array([XXHASH64_SEED], np.uint64))
        for column in columns:
            hashes = hash_longs(column.to_numpy(), hashes)
        return pl.Series(convert(hash_text(salt.encode(), hashes)), dtype=kind)

    return pl.map_batches([key.cast(pl.Int64).fill_null(0) for key in keys], hashed, return_dtype=kind)


MAX_OPERATORS = 500_000_000
"""Ids are 32-bit integers, and some shapes use more than one per operator."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Parameters of a generated fleet; the same Spec gives the same tables on any cluster.

    `operators`: physical operators of one topology; `width`: number of parallel operators (its exact meaning
    depends on the shape); `parallelism`: every topology's default parallelism; `share_of_uids`: share of
    physical operators that have a uid. None leaves the choice to the shape. `with_refusals`: some topologies
    have options that Flink refuses.
    """

    operators: int
    topologies: int = 1
    seed: int = 0
    parallelism: int | None = None
    share_of_uids: float | None = None
    width: int | None = None
    with_refusals: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigurationError for the first parameter that no shape can use."""
        _require("operators", self.operators, 2, MAX_OPERATORS)
        _require("topologies", self.topologies, 1, MAX_OPERATORS)
        _require("seed", self.seed, -(2**63), 2**63 - 1)
        if self.parallelism is not None:
            _require("parallelism", self.parallelism, 1, MAX_PARALLELISM)
        if self.share_of_uids is not None:
            _require("share_of_uids", self.share_of_uids, 0, 1)
        if self.width is not None:
            _require("width", self.width, 1, MAX_OPERATORS)


def _require(parameter: str, value: float, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigurationError(f"{parameter} must be {low} to {high}, got {value}")


INDEX, ID = "index", "id"
"""Columns of the number of a row's topology in the fleet, from 0, and of the transformation's id."""

DEFAULT_PARALLELISM = 4

ROWS_OF_A_PART = 250_000
"""The approximate number of rows created at a time."""


_MANAGED_MEMORY = str(ManagedMemoryUseCase.OPERATOR)


class Fleet(NamedTuple):
    """The topologies of a shape and a Spec, in units numbered from 0; units of a topology are adjacent.

    `rows` maps a frame with the column `unit` to the transformations of these units, in the order of topology
    and id: INDEX, ID and the columns of TRANSFORMATIONS that the shape sets. `settings` are columns of
    TOPOLOGIES over INDEX. `managed_memory`, `slot_scope` and `config` contain a single value or null;
    `option` is the key of the value in `config`.
    """

    shape: str
    spec: Spec
    units: int
    rows_of_a_unit: int  #: at most
    rows: Callable[[pl.DataFrame], pl.DataFrame]
    settings: Mapping[str, pl.Expr]
    option: str = ""

    def key_of_map(self, column: str) -> str:
        """Return the single key of the maps in `config` or `managed_memory`."""
        return self.option if column == "config" else _MANAGED_MEMORY

    @property
    def units_of_a_part(self) -> int:
        """The number of units with about ROWS_OF_A_PART rows."""
        return max(1, ROWS_OF_A_PART // self.rows_of_a_unit)


def operators_of_units(operators: int) -> list[pl.Expr]:
    """Return INDEX and `operator` (from 0) if each topology has one unit per operator."""
    unit = pl.col("unit")
    return [(unit // operators).alias(INDEX), (unit % operators).alias("operator")]


def default_parallelism(spec: Spec) -> dict[str, pl.Expr]:
    """Return the settings of shapes whose topologies all have the same parallelism."""
    return {"parallelism": pl.lit(spec.parallelism or DEFAULT_PARALLELISM)}


def numbered_uid(draw: Draw, spec: Spec) -> pl.Expr:
    """Return `op-<id>` for the Spec's share of operators, else null."""
    share = spec.share_of_uids or 0.0
    uid = pl.concat_str(pl.lit("op-"), pl.col(ID))
    return pl.when(draw("uid", pl.col(INDEX), pl.col(ID)) < share).then(uid)


def literal(text: object) -> pl.Expr:
    """Return a string as a value; polars treats bare strings as columns."""
    return pl.lit(str(text))


# Topology lines (docs/topology-files.md) of a fleet, in pieces: a topology may be larger than memory.


GENERATOR = 2
"""Incremented whenever a shape gives other topologies of the same Spec; part of the fingerprint."""


def topology_rows(fleet: Fleet, start: int, stop: int) -> pl.DataFrame:
    """Return INDEX, `name`, `fingerprint` and the settings of the shape, of topologies number `start` to
    `stop` - 1.

    The name is shape-seed-index. The fingerprint is SHA-256 over the recipe (shape, version of the generator,
    Spec) and the index, which determine every row of the topology: no pass over the rows is needed.
    """
    recipe = "|".join(["generated", fleet.shape, str(GENERATOR), *_parameters(fleet.spec)])
    numbers = range(start, stop)
    return pl.DataFrame(
        {
            INDEX: pl.Series(numbers, dtype=pl.Int64),
            "name": [_name(fleet, number) for number in numbers],
            "fingerprint": [sha256(f"{recipe}|{number}".encode()).hexdigest() for number in numbers],
        }
    ).with_columns(**{"chaining": pl.lit(True), **fleet.settings})


def transformation_rows(fleet: Fleet, start: int, stop: int) -> pl.DataFrame:
    """Return the rows of units `start` to `stop` - 1, as described in Fleet.rows."""
    return fleet.rows(pl.DataFrame({"unit": pl.Series(range(start, min(stop, fleet.units)), dtype=pl.Int64)}))


def topologies_table(fleet: Fleet, start: int, stop: int) -> pa.Table:
    """Return TOPOLOGIES of the topologies number `start` to `stop` - 1."""
    rows = topology_rows(fleet, start, stop)
    return _table(fleet, rows, "topologies", {"form": pl.lit(str(TopologyForm.TRANSFORMATIONS))})


def transformations_table(fleet: Fleet, start: int, stop: int) -> pa.Table:
    """Return TRANSFORMATIONS of the units `start` to `stop` - 1."""
    return _table(fleet, transformation_rows(fleet, start, stop), "transformations", {})


def fleet_tables(fleet: Fleet) -> tuple[pa.Table, pa.Table]:
    """Return the tables topologies and transformations of a fleet."""
    parts = range(0, fleet.units, fleet.units_of_a_part)
    rows = [transformations_table(fleet, start, start + fleet.units_of_a_part) for start in parts]
    return topologies_table(fleet, 0, fleet.spec.topologies), pa.concat_tables(rows)


def _parameters(spec: Spec) -> list[str]:
    """Return `name=value` for everything that a topology's rows depend on, except its index."""
    names = [field.name for field in fields(spec) if field.name != "topologies"]
    return [f"{name}={getattr(spec, name)}" for name in names]


def _name(fleet: Fleet, number: int) -> str:
    return f"{fleet.shape}-{fleet.spec.seed}-{number:06}"


def _table(fleet: Fleet, rows: pl.DataFrame, table: str, more: Mapping[str, pl.Expr]) -> pa.Table:
    """Return the declared columns of a table; columns that a shape does not set are null or empty."""
    if rows.is_empty():
        return pa.Table.from_batches([], TABLES[table])
    numbers = rows[INDEX].unique().to_list()
    ids = pl.col(INDEX).replace_strict(
        numbers, [topology_id(_name(fleet, number)) for number in numbers], return_dtype=pl.Int64
    )
    keyed = rows.with_columns(topology_id=ids, **more)
    schema = TABLES[table]
    columns = []
    for field in schema:
        values = keyed[field.name] if field.name in keyed.columns else pl.Series([None] * len(keyed))
        if pa.types.is_map(field.type):
            columns.append(_one_entry_maps(values, field, fleet.key_of_map(field.name)))
        elif pa.types.is_list(field.type) and not field.nullable and values.dtype != pl.List:
            columns.append(_one_value_lists(values, field))
        elif values.dtype == pl.Null:
            columns.append(pa.nulls(len(values), field.type))
        else:
            columns.append(values.to_arrow().cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _one_entry_maps(values: pl.Series, field: pa.Field, key: str) -> pa.MapArray:
    entries = values.drop_nulls()
    keys = pa.repeat(key, len(entries))
    items = entries.to_arrow().cast(field.type.item_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items).cast(field.type)


def _one_value_lists(values: pl.Series, field: pa.Field) -> pa.ListArray:
    items = values.drop_nulls().to_arrow().cast(field.type.value_type)
    return pa.ListArray.from_arrays(_offsets(values), items).cast(field.type)


def _offsets(values: pl.Series) -> pa.Array:
    ends = np.cumsum(values.is_not_null().to_numpy(), dtype=np.int32)
    return pa.Array.from_buffers(
        pa.int32(), len(ends) + 1, [None, pa.py_buffer(np.concatenate([np.zeros(1, np.int32), ends]))]
    )


_VIRTUAL = sorted(map(str, VIRTUAL_KINDS))
_TOPOLOGY_KEYS = ("name", "parallelism", "max_parallelism", "chaining", "config")


def topology_lines(fleet: Fleet) -> Iterator[str]:
    """Yield the lines of all topologies by number, each one JSON object and a line feed, in pieces of any
    length.

    Keys that are not set are omitted: nulls, empty lists and maps, the name of a virtual transformation, and
    `chaining` if it is on.
    """
    current = -1
    for start in range(0, fleet.units, fleet.units_of_a_part):
        rows = transformation_rows(fleet, start, start + fleet.units_of_a_part)
        if rows.is_empty():
            continue
        members = rows.select(INDEX, member=json_object(_values(fleet, rows, TRANSFORMATIONS.names[1:])))
        joined = members.group_by(INDEX, maintain_order=True).agg(pl.col("member").str.join(","))
        first, last = int(joined[INDEX][0]), int(joined[INDEX][-1])
        heads = topology_rows(fleet, first, last + 1)
        texts = heads.select(text=json_object(_values(fleet, heads, _TOPOLOGY_KEYS)))["text"]
        pieces = []
        for head, topology_members in zip(texts, joined["member"], strict=True):
            if first == current:
                pieces.append(f",{topology_members}")
            else:
                end = "" if current < 0 else "]}\n"
                pieces.append(f'{end}{head[:-1]},"transformations":[{topology_members}')
            current, first = first, first + 1
        yield "".join(pieces)
    yield "]}\n"


def _values(fleet: Fleet, rows: pl.DataFrame, names: list[str] | tuple[str, ...]) -> dict[str, pl.Expr]:
    """Return the JSON values of the columns that a shape has set, null if the key is to be omitted."""
    return {name: _value(fleet, rows, name) for name in names if name in rows.columns}


def _value(fleet: Fleet, rows: pl.DataFrame, name: str) -> pl.Expr:
    value = pl.col(name)
    text = quoted(value) if rows.schema[name] == pl.String else value.cast(pl.String)
    match name:
        case "inputs":
            listed = in_list(value.cast(pl.List(pl.String)).list.join(","))
            return pl.when(value.list.len() > 0).then(listed)
        case "config" | "managed_memory":
            return pl.concat_str(pl.lit(f'{{"{fleet.key_of_map(name)}":'), text, pl.lit("}"))
        case "slot_scope":
            return in_list(text)
        case "name" if "kind" in rows.columns:
            return pl.when((value != "") | ~pl.col("kind").is_in(_VIRTUAL)).then(text)
        case "chaining" if rows.schema[name] == pl.Boolean:
            return pl.when(~value).then(text)
        case _:
            return text


# The options of operators in random topologies: the share of each, and its values.


DEFAULT_SHARE_OF_UIDS = 0.165
SHARE_OF_UID_HASHES = 0.043
SHARE_OF_UIDS_USED_TWICE = 0.05
"""Share of the operators with a uid, times `rarity`: Flink refuses the topology if two operators get it."""


_OPERATORS = tuple(kind for kind in WRITTEN_KINDS if kind not in VIRTUAL_KINDS)


class RandomOption(NamedTuple):
    """A column that `share` of the operators of `kinds` set to one of `values`."""

    column: str
    share: float
    values: tuple[str | int, ...]
    kinds: tuple[Kind, ...] = _OPERATORS
    may_be_refused: bool = False


_STATEFUL = (Kind.ONE_INPUT, Kind.TWO_INPUT)
_CHAINING = (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD, ChainingStrategy.NEVER)

OPTIONS: tuple[RandomOption, ...] = (
    RandomOption("parallelism", 0.175, (1, 2, 3, 4, 5, 7, 8)),
    RandomOption("max_parallelism", 0.117, (128, 256, 1024)),
    RandomOption("slot_sharing_group", 0.092, ("a", "b", "default")),
    RandomOption("co_location_group", 0.033, ("near", "far"), may_be_refused=True),
    RandomOption("buffer_timeout", 0.096, (-1, 0, 50, 1000)),
    RandomOption(
        "chaining",
        0.18,
        tuple(map(str, _CHAINING)),
        tuple(kind for kind in _OPERATORS if kind != Kind.MULTI_INPUT),
    ),
    RandomOption("managed_memory", 0.1, (1, 16, 128), (*_STATEFUL, Kind.MULTI_INPUT)),
    RandomOption(
        "slot_scope",
        0.045,
        (str(ManagedMemoryUseCase.STATE_BACKEND), str(ManagedMemoryUseCase.PYTHON)),
        _STATEFUL,
    ),
)


def draw_options(rows: pl.DataFrame, spec: Spec) -> pl.DataFrame:
    """Add the columns read by `operator_options`, a column `draw_<option>` each and three for uids."""
    draw = draws(spec.seed)
    keys = (pl.col(INDEX), pl.col(ID))
    salts = [option.column for option in OPTIONS] + ["uid", "uid_hash", "uid_used_twice"]
    return rows.with_columns(draw(salt, *keys).alias(f"draw_{salt}") for salt in salts)


def operator_options(spec: Spec) -> dict[str, pl.Expr]:
    """Return the columns of OPTIONS, `uid` and `uid_hash`, from rows of `draw_options`."""
    share_of_uids = DEFAULT_SHARE_OF_UIDS if spec.share_of_uids is None else spec.share_of_uids
    uid = pl.concat_str(pl.lit("uid-"), _hex(spec, "uid"))
    if spec.with_refusals:
        twice = pl.col("draw_uid_used_twice") < SHARE_OF_UIDS_USED_TWICE * pl.col("rarity")
        uid = pl.when(twice).then(pl.lit("uid-shared")).otherwise(uid)
    uid_hash = pl.concat_str(_hex(spec, "uid hash, high"), _hex(spec, "uid hash, low"))
    operator = ~pl.col("kind").is_in(sorted(map(str, VIRTUAL_KINDS)))
    return {
        **{
            option.column: _random_value(option, spec)
            for option in OPTIONS
            if spec.with_refusals or not option.may_be_refused
        },
        "uid": pl.when(operator & (pl.col("draw_uid") < share_of_uids)).then(uid),
        "uid_hash": pl.when(operator & (pl.col("draw_uid_hash") < SHARE_OF_UID_HASHES)).then(uid_hash),
    }


def _hex(spec: Spec, salt: str) -> pl.Expr:
    return hexadecimal(spec.seed, salt, pl.col(INDEX), pl.col(ID))


def _random_value(option: RandomOption, spec: Spec) -> pl.Expr:
    values = option.values
    if option.column == "max_parallelism":
        values = tuple(value for value in values if int(value) >= (spec.parallelism or 1)) or (2**15,)
    share = option.share * pl.col("rarity") if option.may_be_refused else pl.lit(option.share)
    drawn = pl.col(f"draw_{option.column}")
    has = pl.col("kind").is_in(list(map(str, option.kinds))) & (drawn < share)
    return pl.when(has).then(pick(drawn, values, share))
