"""The options of operators in random topologies: how many have each, and which values."""

from typing import NamedTuple

import polars as pl

from penstock.plans.generate.fleet import ID, INDEX, Spec, draws, hexadecimal, pick
from penstock.plans.vocabulary import (
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    Kind,
    ManagedMemoryUseCase,
)

DEFAULT_SHARE_OF_UIDS = 0.165
SHARE_OF_UID_HASHES = 0.043
SHARE_OF_UIDS_USED_TWICE = 0.05
"""Of the operators with a uid; times `rarity`, as Flink refuses the topology when two operators get it."""


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
    """`rows` with what `operator_options` reads: a column `draw_<option>` each, and three for uids."""
    draw = draws(spec.seed)
    keys = (pl.col(INDEX), pl.col(ID))
    salts = [option.column for option in OPTIONS] + ["uid", "uid_hash", "uid_used_twice"]
    return rows.with_columns(draw(salt, *keys).alias(f"draw_{salt}") for salt in salts)


def operator_options(spec: Spec) -> dict[str, pl.Expr]:
    """The columns of OPTIONS, `uid` and `uid_hash`, from rows of `draw_options`."""
    share_of_uids = DEFAULT_SHARE_OF_UIDS if spec.share_of_uids is None else spec.share_of_uids
    uid = pl.concat_str(pl.lit("uid-"), _hex(spec, "uid"))
    if spec.with_refusals:
        twice = pl.col("draw_uid_used_twice") < SHARE_OF_UIDS_USED_TWICE * pl.col("rarity")
        uid = pl.when(twice).then(pl.lit("uid-shared")).otherwise(uid)
    uid_hash = pl.concat_str(_hex(spec, "uid hash, high"), _hex(spec, "uid hash, low"))
    operator = ~pl.col("kind").is_in(sorted(map(str, VIRTUAL_KINDS)))
    return {
        **{
            option.column: _value(option, spec)
            for option in OPTIONS
            if spec.with_refusals or not option.may_be_refused
        },
        "uid": pl.when(operator & (pl.col("draw_uid") < share_of_uids)).then(uid),
        "uid_hash": pl.when(operator & (pl.col("draw_uid_hash") < SHARE_OF_UID_HASHES)).then(uid_hash),
    }


def _hex(spec: Spec, salt: str) -> pl.Expr:
    return hexadecimal(spec.seed, salt, pl.col(INDEX), pl.col(ID))


def _value(option: RandomOption, spec: Spec) -> pl.Expr:
    values = option.values
    if option.column == "max_parallelism":
        values = tuple(value for value in values if int(value) >= (spec.parallelism or 1)) or (2**15,)
    share = option.share * pl.col("rarity") if option.may_be_refused else pl.lit(option.share)
    drawn = pl.col(f"draw_{option.column}")
    has = pl.col("kind").is_in(list(map(str, option.kinds))) & (drawn < share)
    return pl.when(has).then(pick(drawn, values, share))
