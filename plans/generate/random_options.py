"""The options of operators in random topologies: how many have each, and which values."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.generate.draws import draws, hash_of, pick
from plans.generate.spec import Spec
from plans.vocabulary import VIRTUAL_KINDS, ChainingStrategy, Kind, ManagedMemoryUseCase

DEFAULT_SHARE_OF_UIDS = 0.165
SHARE_OF_UID_HASHES = 0.043
SHARE_OF_UIDS_USED_TWICE = 0.05
"""Of the operators with a uid; times `rarity`, as Flink refuses the topology when two operators get it."""


_OPERATORS = tuple(kind for kind in Kind if kind not in VIRTUAL_KINDS)


class Option(NamedTuple):
    """A column that `share` of the operators of `kinds` set to one of `values`."""

    column: str
    share: float
    values: tuple[str | int, ...]
    kinds: tuple[Kind, ...] = _OPERATORS
    may_be_refused: bool = False


_STATEFUL = (Kind.ONE_INPUT, Kind.TWO_INPUT)
_CHAINING = (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD, ChainingStrategy.NEVER)

OPTIONS: tuple[Option, ...] = (
    Option("parallelism", 0.175, (1, 2, 3, 4, 5, 7, 8)),
    Option("max_parallelism", 0.117, (128, 256, 1024)),
    Option("slot_sharing_group", 0.092, ("a", "b", "default")),
    Option("co_location_group", 0.033, ("near", "far"), may_be_refused=True),
    Option("buffer_timeout", 0.096, (-1, 0, 50, 1000)),
    Option(
        "chaining",
        0.18,
        tuple(map(str, _CHAINING)),
        tuple(kind for kind in _OPERATORS if kind != Kind.MULTI_INPUT),
    ),
    Option("managed_memory", 0.1, (1, 16, 128), (*_STATEFUL, Kind.MULTI_INPUT)),
    Option(
        "slot_scope",
        0.045,
        (str(ManagedMemoryUseCase.STATE_BACKEND), str(ManagedMemoryUseCase.PYTHON)),
        _STATEFUL,
    ),
)

_EMPTY = {"managed_memory": "map<string,int>", "slot_scope": "array<string>"}


def draw_options(rows: DataFrame, spec: Spec) -> DataFrame:
    """`rows` with what `operator_options` reads: a column `draw_<option>` each, and three for uids."""
    draw = draws(spec.seed)
    keys = (F.col("index"), F.col("id"))
    salts = [option.column for option in OPTIONS] + ["uid", "uid_hash", "uid_used_twice"]
    return rows.select("*", *(draw(salt, *keys).alias(f"draw_{salt}") for salt in salts))


def operator_options(spec: Spec) -> dict[str, Column]:
    """The columns of OPTIONS, `uid` and `uid_hash`, from rows of `draw_options`."""
    share_of_uids = DEFAULT_SHARE_OF_UIDS if spec.share_of_uids is None else spec.share_of_uids
    twice = F.col("draw_uid_used_twice") < SHARE_OF_UIDS_USED_TWICE * F.col("rarity")
    uid = F.when(twice, F.lit("uid-shared")).otherwise(F.concat(F.lit("uid-"), _hex(spec, "uid")))
    uid_hash = F.concat(_hex(spec, "uid hash, high"), _hex(spec, "uid hash, low"))
    operator = ~F.col("kind").isin(*sorted(map(str, VIRTUAL_KINDS)))
    return {
        **{option.column: _value(option, spec) for option in OPTIONS},
        "uid": F.when(operator & (F.col("draw_uid") < share_of_uids), uid),
        "uid_hash": F.when(operator & (F.col("draw_uid_hash") < SHARE_OF_UID_HASHES), uid_hash),
    }


def _hex(spec: Spec, salt: str) -> Column:
    return F.lower(F.lpad(F.hex(hash_of(spec.seed, salt, F.col("index"), F.col("id"))), 16, "0"))


def _value(option: Option, spec: Spec) -> Column:
    values = option.values
    if option.column == "max_parallelism":
        values = tuple(value for value in values if int(value) >= (spec.parallelism or 1)) or (2**15,)
    share = option.share * F.col("rarity") if option.may_be_refused else F.lit(option.share)
    drawn = F.col(f"draw_{option.column}")
    picked = pick(drawn, values, share)
    if option.column == "managed_memory":
        picked = F.create_map(F.lit(str(ManagedMemoryUseCase.OPERATOR)), picked)
    elif option.column == "slot_scope":
        picked = F.array(picked)
    value = F.when(F.col("kind").isin(*map(str, option.kinds)) & (drawn < share), picked)
    if option.column not in _EMPTY:
        return value
    empty = F.create_map() if option.column == "managed_memory" else F.array()
    return F.coalesce(value, empty.cast(_EMPTY[option.column]))
