"""A fleet of topologies, described so that any part of it can be made on its own."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from plans.generate.draws import Draw
from plans.generate.spec import Spec
from plans.vocabulary import ManagedMemoryUseCase

INDEX, ID = "index", "id"
"""Which topology of the fleet a row is of, from 0, and the transformation's id."""

DEFAULT_PARALLELISM = 4

ROWS_OF_A_PART = 250_000
"""About how many rows are made at a time."""


_MANAGED_MEMORY = str(ManagedMemoryUseCase.OPERATOR)


class Fleet(NamedTuple):
    """The topologies of a shape and a Spec, by units that are numbered from 0; those of a topology adjoin.

    `rows` makes of a frame with the column `unit` one of the transformations of these units, in the order of
    topology and id: INDEX, ID and the columns of TRANSFORMATIONS that the shape sets. `settings` are columns
    of TOPOLOGIES over INDEX. `managed_memory`, `slot_scope` and `config` are the one value that is given, or
    null; `option` is the key of the value in `config`.
    """

    shape: str
    spec: Spec
    units: int
    rows_of_a_unit: int  #: at most
    rows: Callable[[pl.DataFrame], pl.DataFrame]
    settings: Mapping[str, pl.Expr]
    option: str = ""

    def key_of_map(self, column: str) -> str:
        """The one key of the maps in `config` or `managed_memory`."""
        return self.option if column == "config" else _MANAGED_MEMORY

    @property
    def units_of_a_part(self) -> int:
        """How many units make about ROWS_OF_A_PART rows."""
        return max(1, ROWS_OF_A_PART // self.rows_of_a_unit)


def operators_of_units(operators: int) -> list[pl.Expr]:
    """INDEX and `operator` (from 0) where each topology has that many units, one for each operator."""
    unit = pl.col("unit")
    return [(unit // operators).alias(INDEX), (unit % operators).alias("operator")]


def default_parallelism(spec: Spec) -> dict[str, pl.Expr]:
    """The settings of shapes whose topologies all have the same parallelism."""
    return {"parallelism": pl.lit(spec.parallelism or DEFAULT_PARALLELISM)}


def numbered_uid(draw: Draw, spec: Spec) -> pl.Expr:
    """`op-<id>` for the Spec's share of operators, else null."""
    share = spec.share_of_uids or 0.0
    uid = pl.concat_str(pl.lit("op-"), pl.col(ID))
    return pl.when(draw("uid", pl.col(INDEX), pl.col(ID)) < share).then(uid)


def literal(text: object) -> pl.Expr:
    """A string as a value: polars takes strings for columns."""
    return pl.lit(str(text))
