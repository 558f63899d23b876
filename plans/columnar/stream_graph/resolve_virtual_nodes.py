"""Inputs of physical transformations lead to physical transformations."""

import numpy as np
import polars as pl

from operators.kinds import OPERATOR_KINDS
from plans.columnar.frames import TOPOLOGY
from plans.columnar.look_up import places
from plans.columnar.runs import runs
from plans.stream_graph.expand_virtual_nodes import LABELS
from plans.stream_graph.resolve_virtual_nodes import MULTIPLE_INPUTS
from plans.vocabulary import Kind, Partitioner

_PHYSICAL = pl.col("kind").is_in(list(OPERATOR_KINDS))
_SINK = pl.col("kind") == Kind.SINK
_INPUTS = (
    pl.col(TOPOLOGY),
    pl.col("id").alias("target"),
    (pl.col("kind") == Kind.ONE_INPUT).alias("one_input"),
    pl.col("kind").is_in(MULTIPLE_INPUTS).alias("several"),
    pl.int_ranges(pl.col("inputs").list.len(), dtype=pl.Int32).alias("position"),
    pl.col("inputs").alias("input"),
)
_BEHIND = (pl.col(TOPOLOGY), pl.col("node"), pl.col("input").alias("behind"), *map(pl.col, LABELS))
_ONE_WAY = pl.col("path").list.len() == 0
_EDGES = (
    pl.col(TOPOLOGY),
    pl.col("target"),
    pl.coalesce("behind", "input").alias("source"),
    pl.when("several").then(pl.col("position") + 1).otherwise(0).alias("type_number"),
    *map(pl.col, LABELS),
    (
        pl.col("one_input")
        & (pl.col("partition") == pl.col("input"))
        & (pl.col("partitioner") == Partitioner.HASH)
    )
    .fill_null(False)
    .alias("keyed"),
)


def resolve_virtual_nodes(transformations: pl.DataFrame, virtual_expansions: pl.DataFrame) -> pl.DataFrame:
    """One row a StreamEdge, in the order in which Flink adds them to their target.

    As plans.stream_graph.resolve_virtual_nodes.
    """
    shape = transformations.select(TOPOLOGY, "id", "kind", "inputs")
    inputs = shape.filter(_PHYSICAL).sort(TOPOLOGY, "id").select(_INPUTS).explode("position", "input")
    # Of a node with several rows, all paths lead through a union: sorting lists is dear.
    in_order = virtual_expansions.filter(_ONE_WAY), virtual_expansions.filter(~_ONE_WAY).sort("path")
    behind_virtual = pl.concat(in_order, rechunk=True).select(_BEHIND)
    ends = inputs.join(
        behind_virtual,
        left_on=[TOPOLOGY, "input"],
        right_on=[TOPOLOGY, "node"],
        how="left",
        maintain_order="left_right",
    ).select(_EDGES)
    # A sink's translator gives no stream node ids to whoever names it as an input.
    from_sink = places(ends, shape.filter(_SINK), {"source": "id"}) >= 0
    return number_edges(ends.filter(~from_sink) if from_sink.any() else ends)


def number_edges(edges: pl.DataFrame) -> pl.DataFrame:
    """`edges` with in_index, out_index, unique_id as Flink counts them, in_degree, input_degree, out_degree.

    In: edges with topology_id, source, target and type_number, sorted by topology and target, those of one
    target as they are added to it.
    """
    topologies, targets, sources, type_numbers = (
        edges[name].to_numpy() for name in (TOPOLOGY, "target", "source", "type_number")
    )
    of_target = runs(topologies, targets)
    by_source = np.argsort((runs(topologies).of_row << 32) | sources, kind="stable")
    of_source = runs(topologies[by_source], sources[by_source])
    of_pair = runs(topologies[by_source], sources[by_source], targets[by_source])
    back = np.empty_like(by_source)
    back[by_source] = np.arange(len(back))
    numbers = {
        "in_index": of_target.numbers(),
        "in_degree": of_target.lengths(),
        "input_degree": runs(topologies, targets, type_numbers).lengths(),
        "out_index": of_source.numbers()[back],
        "unique_id": of_pair.numbers()[back],
        "out_degree": of_source.lengths()[back],
    }
    return edges.with_columns(pl.Series(name, values.astype(np.int32)) for name, values in numbers.items())
