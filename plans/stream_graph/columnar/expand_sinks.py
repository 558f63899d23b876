"""Sinks of the Sink V2 API become the operators that Flink makes of them."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.stream_graph.columnar.input_rows import FIRST_VIRTUAL, KINDS, input_rows
from penstock.plans.stream_graph.expand_sinks import EXPANDED, OF_THE_SINK, PART, SINK_ITSELF, parts_of_sink
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, Kind

_SINK = KINDS.index(Kind.SINK)
_IS_SOURCE = np.array([kind in SOURCE_KINDS for kind in KINDS])
_HAS_A_NODE = np.array([kind in (Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT) for kind in KINDS])
_NONE = -1


def expand_sinks(transformations: pl.DataFrame) -> pl.DataFrame:
    """The transformations with what their sinks become (see EXPANDED).

    Columns and source: see joins.expand_sinks.

    Example: a sink that commits becomes a writer and a committer
    (tests/passes/fixtures/expanded_transformations.txt).

        transformations
        id  kind    inputs  name   uid  sink_topology
        1   source  []      s      -    -
        2   sink    [1]     Files  out  {"committer":{},"writer":{}}

        -> expanded_transformations
        id  kind       inputs  name              uid
        1   source     []      s                 -
        2   union      []      Files             -
        3   writer     [1]     Files: Writer     out
        4   partition  [3]     ""                -
        5   committer  [4]     Files: Committer  Sink Committer: out
    """
    plain = transformations.with_columns(
        position=pl.col("id"), transformation=pl.col("id"), concurrent_attempts=pl.lit(value=True)
    ).select(EXPANDED.names)
    is_sink = pl.col("sink_topology").is_not_null()
    with_sinks = transformations.filter(is_sink)[TOPOLOGY].unique().implode()
    if not with_sinks.list.len().item():
        return plain
    has_sinks = pl.col(TOPOLOGY).is_in(with_sinks)
    ordered = transformations.filter(has_sinks).sort(TOPOLOGY, "id")
    parts, sizes = _parts(ordered["sink_topology"].drop_nulls().unique())
    sinks = _sinks_with_ids(ordered, sizes)
    sink_parts = sinks.join(parts, on="sink_topology", maintain_order="left_right")
    placed = _with_positions(ordered, sizes)
    kept = placed.with_columns(
        pl.when(is_sink).then(pl.lit(value, plain.schema[name])).otherwise(name).alias(name)
        for name, value in SINK_ITSELF.items()
    )
    first = placed.filter(is_sink).select(
        pl.int_ranges(pl.col("position") + 1, pl.col("position") + 1 + pl.col("parts"))
    )
    expanded = _as_transformations(sink_parts).with_columns(position=first.to_series().explode())
    tables = (plain.filter(~has_sinks), kept, expanded)
    return pl.concat(table.select(plain.columns).cast(plain.schema) for table in tables)


def _parts(sink_topologies: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The parts (PART) of each distinct text; and for each text the number of its parts and of their ids."""
    rows: list[dict[str, Any]] = []
    sizes: list[tuple[str, int, int, int]] = []
    for text in sink_topologies.to_list():
        parts, ids, ways = parts_of_sink(text)
        rows += parts
        sizes.append((text, len(parts), ids, ways))
    columns = ("sink_topology", "parts", "ids", "ids_of_ways")
    of_texts = pl.DataFrame(
        sizes, dict(zip(columns, (pl.String, *[pl.Int64] * 3), strict=True)), orient="row"
    )
    return from_arrow(pa.Table.from_pylist(rows, PART)), of_texts


def _with_positions(ordered: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """Transformations in the order of their ids, with `parts`, what each becomes, and their positions."""
    parts = pl.col("parts").fill_null(0)
    return ordered.join(sizes, on="sink_topology", how="left", maintain_order="left").with_columns(
        parts=parts,
        position=pl.col("id") + parts.cum_sum().over(TOPOLOGY) - parts,
        transformation=pl.col("id"),
        concurrent_attempts=pl.lit(value=True),
    )


def _sinks_with_ids(ordered: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """The sinks, with last_id, which their parts' ids follow, and `ways`, those into the sink.

    In: all transformations of topologies with sinks, by topology and id; sizes as _parts gives them.
    """
    input_arrays = input_rows(ordered.select(TOPOLOGY, "id", "inputs", "kind"))
    stands_for, drawn = (np.zeros(len(ordered), np.int64) for _ in range(2))
    virtual = input_arrays.kinds >= FIRST_VIRTUAL
    run_loop(
        _count_ways,
        len(ordered),
        (input_arrays.bounds, input_arrays.rows, virtual, input_arrays.kinds == _SINK),
        (stands_for,),
    )
    if _HAS_A_NODE[input_arrays.kinds].any():
        first = np.full(len(ordered), _NONE, np.int64)
        run_loop(
            _count_drawn,
            len(ordered),
            (
                input_arrays.bounds,
                input_arrays.rows,
                virtual,
                _IS_SOURCE[input_arrays.kinds],
                _HAS_A_NODE[input_arrays.kinds],
                stands_for,
            ),
            (drawn, first),
        )
    of_topologies = runs(ordered[TOPOLOGY].to_numpy())
    transformations = np.diff(np.append(of_topologies.starts, len(ordered)))[of_topologies.of_row]
    input = input_arrays.rows[np.minimum(input_arrays.bounds[:-1], max(len(input_arrays.rows) - 1, 0))]
    return (
        ordered.with_columns(drawn=drawn, transformations=transformations, ways=stands_for[input])
        .with_columns(pl.col("drawn").cum_sum().over(TOPOLOGY))
        .filter(pl.col("sink_topology").is_not_null())
        .join(sizes, on="sink_topology", how="left", maintain_order="left")
        .with_columns(taken=pl.col("ids") + pl.col("ids_of_ways") * pl.col("ways"))
        .with_columns(
            last_id=pl.col("transformations")
            + pl.col("drawn")
            + pl.col("taken").cum_sum().over(TOPOLOGY)
            - pl.col("taken")
        )
    )


def _count_ways(bounds: Ints, inputs: Ints, virtual: Ints, sinks: Ints, stands_for: Ints) -> None:
    """The number of stream nodes that each transformation stands for; 0 for a sink (see run_loop)."""
    for row in range(len(virtual)):
        if virtual[row]:
            count = 0
            for place in range(bounds[row], bounds[row + 1]):
                count += stands_for[inputs[place]]
            stands_for[row] = count
        else:
            stands_for[row] = 1 - sinks[row]


def _count_drawn(
    bounds: Ints,
    inputs: Ints,
    virtual: Ints,
    sources: Ints,
    has_a_node: Ints,
    stands_for: Ints,
    drawn: Ints,
    first: Ints,
) -> None:
    """The number of virtual nodes made for each operator, the first to reach them (see run_loop).

    `first`: the first operator that reads a virtual transformation, through others.
    """
    for back in range(len(virtual)):
        row = len(virtual) - 1 - back
        reader = first[row] if virtual[row] else row
        if reader >= 0 and not sources[row]:
            if has_a_node[row]:
                drawn[reader] += stands_for[row]
            for place in range(bounds[row], bounds[row + 1]):
                read = inputs[place]
                if first[read] < 0 or reader < first[read]:
                    first[read] = reader


def _as_transformations(sink_parts: pl.DataFrame) -> pl.DataFrame:
    """The parts of sinks as transformations. Columns that sinks have, too, end in _right."""
    own = {
        name: pl.col(f"{name}_right")
        for name in PART.names
        if name in sink_parts.columns and f"{name}_right" in sink_parts.columns
    }
    id = pl.col("last_id") + pl.col("id_after") + pl.col("ways_before") * pl.col("ways")
    is_first = pl.col("id_after") == 1
    takes = pl.col("takes_of_sink")
    group, own_group = pl.col("co_location_group"), own["co_location_group"]
    has_uid = pl.col("before_uid").is_not_null()
    is_operator = own["name"].is_not_null()
    return sink_parts.select(
        TOPOLOGY,
        id=id,
        kind=own["kind"],
        name=pl.when(is_operator)
        .then(pl.concat_str("name", pl.lit(": "), own["name"]))
        .otherwise(pl.lit("")),
        inputs=pl.concat_list(pl.when(is_first).then(pl.col("inputs").list.first()).otherwise(id.shift(1))),
        uid=pl.when(pl.col("uid").is_null())
        .then(own["uid"])
        .when(has_uid)
        .then(pl.concat_str("before_uid", "uid", "after_uid")),
        **{
            name: pl.when(takes).then(pl.coalesce(own[name], name)).otherwise(own[name])
            for name in OF_THE_SINK
        },
        co_location_group=pl.when(~takes | group.is_null())
        .then(own_group)
        .otherwise(pl.concat_str(group, pl.lit(": ") + own_group, ignore_nulls=True)),
        chaining=pl.when(takes).then(pl.coalesce("chaining", own["chaining"])).otherwise(own["chaining"]),
        **{name: own[name] for name in _OF_PARTS_ALONE},
        tag=pl.lit(None, pl.String),
        names=pl.lit(None, pl.List(pl.String)),
        transformation=pl.col("id"),
        concurrent_attempts=pl.col("concurrent_attempts"),
    )


_OF_PARTS_ALONE = (
    *("uid_hash", "buffer_timeout", "managed_memory", "slot_scope"),
    *("min_resources", "preferred_resources", "partitioner", "exchange_mode"),
)
