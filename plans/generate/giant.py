"""Shape `giant`, one large topology with everything that makes large ones hard to plan."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import polars as pl

from penstock.plans.generate.fleet import (
    DEFAULT_PARALLELISM,
    ID,
    INDEX,
    Draw,
    Fleet,
    Spec,
    below,
    default_parallelism,
    draws,
    literal,
    numbered_uid,
    operators_of_units,
    pick,
)
from penstock.plans.vocabulary import VIRTUAL_KINDS, ChainingStrategy, Kind, Partitioner, StreamExchangeMode

RUNTIME_MODE = "execution.runtime-mode"

SHARE_OF_CHAIN = 0.1
"""Share of the operators that form one chain."""

DEFAULT_WIDTH = 2_000
"""Cells whose last operators one union reads."""

GROUPS = 8
"""Slot sharing groups besides `default`."""

CO_LOCATIONS = 64
"""Co-location groups of a STREAMING job; in BATCH mode, each cell has its own."""


class Member(NamedTuple):
    """One transformation of a cell; its inputs are positions in the same cell."""

    kind: Kind
    inputs: tuple[int, ...] = ()
    partitioner: Partitioner | None = None
    exchange_mode: StreamExchangeMode | None = None


_CELL = (
    Member(Kind.SOURCE),
    Member(Kind.ONE_INPUT, (0,)),
    Member(Kind.PARTITION, (1,), Partitioner.HASH),
    Member(Kind.ONE_INPUT, (2,)),
    Member(Kind.SIDE_OUTPUT, (3,)),
    Member(Kind.PARTITION, (4,), Partitioner.REBALANCE),
    Member(Kind.ASYNC, (5,)),
    Member(Kind.PARTITION, (3,), Partitioner.RESCALE, StreamExchangeMode.BATCH),
    Member(Kind.TWO_INPUT, (7, 6)),
    Member(Kind.UNION, (1, 4, 5)),
    Member(Kind.UNION, (9, 2)),
    Member(Kind.PARTITION, (10,), Partitioner.SHUFFLE, StreamExchangeMode.PIPELINED),
    Member(Kind.ONE_INPUT, (11,)),
    Member(Kind.LEGACY_SOURCE),
    Member(Kind.ONE_INPUT, (13,)),
    Member(Kind.ASYNC, (14,)),
    Member(Kind.SOURCE),
    Member(Kind.SOURCE),
    Member(Kind.MULTI_INPUT, (16, 17, 12)),
    Member(Kind.TWO_INPUT, (8, 18)),
    Member(Kind.ONE_INPUT, (19,)),
    Member(Kind.ONE_INPUT, (20,)),
    Member(Kind.ONE_INPUT, (21,)),
    Member(Kind.PARTITION, (22,), Partitioner.CUSTOM),
    Member(Kind.ONE_INPUT, (23,)),
    Member(Kind.ONE_INPUT, (24,)),
    Member(Kind.SINK, (25,)),
    Member(Kind.SINK, (8,)),
    Member(Kind.SINK, (15,)),
    Member(Kind.ONE_INPUT, (25,)),
    Member(Kind.PARTITION, (29,), Partitioner.BROADCAST, StreamExchangeMode.BATCH),
    Member(Kind.SINK, (30,)),
)
_LINKED, _GROUPED, _LOCATED, _READ_BY_UNIONS = 19, 20, 22, 29
"""Places whose first input may be in an earlier cell, that have a group, a co-location, and many readers."""

_HUB = (
    Member(Kind.UNION),
    Member(Kind.PARTITION, (0,), Partitioner.REBALANCE, StreamExchangeMode.BATCH),
    Member(Kind.ONE_INPUT, (1,)),
    Member(Kind.SINK, (2,)),
)
"""The transformations after the cells, once per `width` cells; a last hub reads all other unions."""

_CHAINING = (str(ChainingStrategy.NEVER), str(ChainingStrategy.HEAD))
_VIRTUAL_NAMES = sorted(map(str, VIRTUAL_KINDS))
_OPERATORS_PER_CELL = sum(member.kind not in VIRTUAL_KINDS for member in _CELL)


def giant(spec: Spec) -> Fleet:
    """One chain of a tenth of the operators; cells with every kind in Flink; unions over cells.

    A cell has nested virtual transformations, side outputs, blocking exchanges, heads with chained sources,
    yielding operators, slot sharing groups and co-location. A join in each cell reads an earlier cell.
    `width` (default 2,000): the number of cells per union; one more union reads all unions. The number of
    operators is exact to within a cell. If seed and number of the topology sum to an even number, it runs in
    BATCH mode; else in STREAMING mode, in which exchanges do not block and some sources are legacy sources,
    which Flink refuses in BATCH mode.
    """
    draw = draws(spec.seed)
    chain = max(2, round(spec.operators * SHARE_OF_CHAIN))
    cells = max(1, (spec.operators - chain) // _OPERATORS_PER_CELL)
    width = spec.width or DEFAULT_WIDTH
    hubs = -(-cells // width) + 1
    is_virtual = pl.col("kind").is_in(_VIRTUAL_NAMES)
    batch = (pl.col(INDEX) + spec.seed) % 2 == 0
    size = chain + cells * len(_CELL) + hubs * len(_HUB)

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        parts = units.select(operators_of_units(size)).with_columns((pl.col("operator") + 1).alias(ID))
        after_chain = pl.col("operator") - chain
        after_cells = after_chain - cells * len(_CELL)
        transformations = pl.concat(
            [
                _chain(parts.filter(after_chain < 0), chain),
                _cells(
                    parts.filter((after_chain >= 0) & (after_cells < 0)).with_columns(
                        cell=after_chain // len(_CELL), place=after_chain % len(_CELL)
                    ),
                    draw,
                    batch,
                ),
                _hubs(
                    parts.filter(after_cells >= 0).with_columns(
                        hub=after_cells // len(_HUB), place=after_cells % len(_HUB)
                    ),
                    first_cell=chain + 1,
                    cells=cells,
                    width=width,
                    hubs=hubs,
                ),
            ],
            how="diagonal",
        )
        return transformations.sort(INDEX, ID).with_columns(
            uid=pl.when(~is_virtual).then(numbered_uid(draw, spec)),
            # Given, because otherwise the parallelism of a BATCH job is decided at run time.
            parallelism=pl.when(~is_virtual).then(spec.parallelism or DEFAULT_PARALLELISM),
        )

    mode = pl.when(batch).then(literal("BATCH")).otherwise(literal("STREAMING"))
    settings = default_parallelism(spec) | {"config": mode}
    return Fleet("giant", spec, spec.topologies * size, 1, rows, settings, RUNTIME_MODE)


def _chain(rows: pl.DataFrame, length: int) -> pl.DataFrame:
    """Return a source, one-input operators, a sink."""
    node = pl.col(ID)
    kind = (
        pl.when(node == 1)
        .then(literal(Kind.SOURCE))
        .when(node == length)
        .then(literal(Kind.SINK))
        .otherwise(literal(Kind.ONE_INPUT))
    )
    return rows.select(
        INDEX,
        ID,
        kind.alias("kind"),
        pl.concat_str(literal("Link-"), node).alias("name"),
        pl.concat_list(node - 1).list.head(pl.when(node == 1).then(0).otherwise(1)).alias("inputs"),
    )


def _cells(rows: pl.DataFrame, draw: Draw, batch: pl.Expr) -> pl.DataFrame:
    """Return copies of _CELL; the first input of a join is in any cell up to its own."""
    index, cell, place = pl.col(INDEX), pl.col("cell"), pl.col("place")
    start = pl.col(ID) - place
    back = below(draw("link", index, cell), cell + 1) * len(_CELL)
    first, second = _CELL[_LINKED].inputs
    linked = pl.concat_list(start + first - back, start + second)
    group = pl.concat_str(literal("group-"), below(draw("group", index, cell), GROUPS))
    heads = draw("chaining", index, cell) < 0.1
    return _members(rows, _CELL).select(
        INDEX,
        ID,
        pl.when(batch & (pl.col("kind") == Kind.LEGACY_SOURCE))
        .then(literal(Kind.SOURCE))
        .otherwise("kind")
        .alias("kind"),
        _name("Cell", cell),
        pl.when(place == _LINKED).then(linked).otherwise(pl.col("offsets") + start).alias("inputs"),
        "partitioner",
        "exchange_mode",
        pl.when(pl.col("kind") == Kind.SIDE_OUTPUT).then(literal("late")).alias("tag"),
        pl.when(place == _GROUPED)
        .then(group)
        .when(place == _LOCATED)
        .then(literal("located"))
        .alias("slot_sharing_group"),
        # Only tasks of one pipelined region may be co-located.
        pl.when(place == _LOCATED)
        .then(
            pl.concat_str(literal("co-location-"), pl.when(batch).then(cell).otherwise(cell % CO_LOCATIONS))
        )
        .alias("co_location_group"),
        pl.when((place == _READ_BY_UNIONS) & heads)
        .then(pick(draw("chaining value", index, cell), _CHAINING))
        .alias("chaining"),
    )


def _hubs(rows: pl.DataFrame, first_cell: int, cells: int, width: int, hubs: int) -> pl.DataFrame:
    """Return copies of _HUB, whose unions read `width` cells each, the last one the unions before it."""
    hub, start = pl.col("hub"), pl.col(ID) - pl.col("place")
    last = hub == hubs - 1
    first_read = first_cell + _READ_BY_UNIONS + hub * width * len(_CELL)
    end_of_cells = pl.min_horizontal(first_read + width * len(_CELL), first_cell + cells * len(_CELL))
    after_chain = pl.int_ranges(pl.when(last).then(0).otherwise(first_read), end_of_cells, len(_CELL))
    after_cells = pl.int_ranges(start - hub * len(_HUB), start, len(_HUB))
    return _members(rows, _HUB).select(
        INDEX,
        ID,
        "kind",
        _name("Hub", hub),
        pl.when(pl.col("kind") != Kind.UNION)
        .then(pl.col("offsets") + start)
        .when(last)
        .then(after_cells)
        .otherwise(after_chain)
        .alias("inputs"),
        "partitioner",
        "exchange_mode",
    )


def _members(rows: pl.DataFrame, members: Sequence[Member]) -> pl.DataFrame:
    """Add kind and labels of the member at each row's position, and the positions that it reads
    as `offsets`.
    """
    table = pl.DataFrame(
        {
            "place": range(len(members)),
            "kind": [str(member.kind) for member in members],
            "offsets": [list(member.inputs) for member in members],
            "partitioner": [_text(member.partitioner) for member in members],
            "exchange_mode": [_text(member.exchange_mode) for member in members],
        },
        schema_overrides={"place": pl.Int64, "offsets": pl.List(pl.Int64)},
    )
    return rows.join(table, on="place", how="left", maintain_order="left")


def _text(value: StrEnum | None) -> str | None:
    return None if value is None else str(value)


def _name(prefix: str, number: pl.Expr) -> pl.Expr:
    """Return the name of an operator; virtual transformations have none."""
    named = pl.concat_str(literal(f"{prefix}-"), number, literal("-"), "place")
    return pl.when(pl.col("kind").is_in(_VIRTUAL_NAMES)).then(literal("")).otherwise(named).alias("name")
