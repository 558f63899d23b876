"""Every virtual transformation is replaced by the physical ones above it."""

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.stream_graph.columnar.input_rows import FIRST_VIRTUAL, KINDS, InputRows, offsets
from penstock.plans.vocabulary import Kind, Partitioner, StreamExchangeMode

_NONE = -1
_MOST = (1 << 31) - 1
"""The most ways that are counted: unions of unions double them."""

_SINK, _PARTITION, _SIDE_OUTPUT, _SELECT = map(
    KINDS.index, (Kind.SINK, Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT)
)
_PARTITIONER = pl.col("partitioner").cast(pl.Enum(Partitioner))
_LABELLED = ("id", "partitioner", "exchange_mode", "tag", "names")
_LABELS = (
    (pl.col("id").alias("partition"), _PARTITIONER),
    (pl.col("exchange_mode").fill_null(pl.lit(str(StreamExchangeMode.UNDEFINED))),),
    (pl.col("tag").alias("output_tag"),),
    (pl.col("names").alias("selected_names"),),
)
"""What an edge takes from each of the four rows that decide its labels."""


def expand_virtual_nodes(transformations: pl.DataFrame, inputs: InputRows) -> pl.DataFrame:
    """One row per virtual transformation and way up to a physical one, in the order of inputs.

    Out (sorted by row): row, that of the virtual transformation; source_row; the labels picked up on the way,
    as in joins.expand_virtual_nodes; right_behind_hash, the transformation is a hash partition.
    Ways up to a sink are left out: its translator gives no stream node ids to transformations that have it as
    an input.
    """
    kinds = inputs.kinds
    virtual = kinds >= FIRST_VIRTUAL
    ways = np.where(kinds == _SINK, 0, 1)
    run_loop(_count_ways, len(kinds), inputs, (ways,))
    if (ways == _MOST).any():
        raise MemoryError("unions of unions: more edges than can be numbered")
    starts = offsets(np.where(virtual, ways, 0))
    way_columns = np.full((1 + len(_LABELS), starts[-1]), _NONE, np.int32)
    run_loop(_fill_ways, len(kinds), (*inputs, starts), tuple(way_columns))
    sources, *deciding = way_columns

    labelled = transformations.select(_LABELLED).filter(pl.Series(values=virtual)).rechunk()
    places = np.append(np.cumsum(virtual) - 1, _NONE).astype(np.uint32)
    labels = [
        labelled.select(columns).select(pl.all().gather(pl.Series(places[rows]), null_on_oob=True))
        for columns, rows in zip(_LABELS, deciding, strict=True)
    ]
    rows = np.repeat(np.arange(len(kinds), dtype=np.int32), np.diff(starts))
    hashed = (pl.col("partitioner") == Partitioner.HASH) & pl.Series(values=deciding[0] == rows)
    return pl.concat(
        [pl.DataFrame({"row": rows, "source_row": sources}), *labels], how="horizontal"
    ).with_columns(hashed.fill_null(False).alias("right_behind_hash"))


def _count_ways(order: Ints, bounds: Ints, inputs: Ints, kinds: Ints, ways: Ints) -> None:
    """The number of ways up from each virtual transformation (see run_loop)."""
    for row in order:
        if kinds[row] >= FIRST_VIRTUAL:
            count = 0
            for place in range(bounds[row], bounds[row + 1]):
                count = min(count + ways[inputs[place]], _MOST)
            ways[row] = count


def _fill_ways(
    order: Ints,
    bounds: Ints,
    inputs: Ints,
    kinds: Ints,
    starts: Ints,
    sources: Ints,
    partitions: Ints,
    exchange_modes: Ints,
    output_tags: Ints,
    selected_names: Ints,
) -> None:
    """The end of each way and the rows that decide its labels (see run_loop): its input's, then its own.

    The nearest decides, and the farthest of those that set an exchange mode.
    """
    for row in order:
        kind = kinds[row]
        if kind < FIRST_VIRTUAL:
            continue
        way = starts[row]
        for place in range(bounds[row], bounds[row + 1]):
            source = inputs[place]
            if kinds[source] >= FIRST_VIRTUAL:
                for further in range(starts[source], starts[source + 1]):
                    sources[way] = sources[further]
                    partitions[way] = partitions[further]
                    exchange_modes[way] = exchange_modes[further]
                    output_tags[way] = output_tags[further]
                    selected_names[way] = selected_names[further]
                    way += 1
            elif kinds[source] != _SINK:
                sources[way] = source
                way += 1
        for own in range(starts[row], starts[row + 1]):
            if kind == _PARTITION:
                partitions[own] = row
                if exchange_modes[own] == _NONE:
                    exchange_modes[own] = row
            elif kind == _SIDE_OUTPUT:
                output_tags[own] = row
            elif kind == _SELECT:
                selected_names[own] = row
