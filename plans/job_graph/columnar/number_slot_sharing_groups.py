"""Job vertices in the order in which Flink schedules them, with their slot sharing and co-location groups."""

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.counts import Runs, runs
from penstock.plans.frames.polars_frames import places
from penstock.plans.frames.polars_groups import first_rows, groups, number_in_turn
from penstock.plans.job_graph.columnar.set_dynamic_parallelism import override_parallelism
from penstock.plans.job_graph.sort_vertices_topologically import order_and_regions
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.tables import JOB_VERTICES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import MUST_BE_PIPELINED_TYPES

_NONE = -1


def number_slot_sharing_groups(
    vertices: pl.DataFrame, sorted_vertices: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with their final name, parallelism, order, region and slot_sharing_group.

    Columns and source: see joins.number_slot_sharing_groups. Out also: group_place, the row of the vertex's
    group in slot_sharing_groups.

    Example: tests/passes/fixtures/grouped_vertices.txt.
    """
    numbered = number_groups(vertices, sorted_vertices, job_settings)
    return with_index_prefix(override_parallelism(numbered, job_settings), job_settings)


def number_groups(
    vertices: pl.DataFrame, sorted_vertices: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The vertices with order, region, slot_sharing_group and group_place.

    In: vertices (topology_id and slot_sharing_group_name), sorted_vertices (in their order).
    """
    of_topologies = runs(vertices[TOPOLOGY].to_numpy())
    is_default = (vertices["slot_sharing_group_name"] == DEFAULT_SLOT_SHARING_GROUP).to_numpy()
    has_regions = ~pl.col("all_vertices_in_same_slot_sharing_group")
    by_region = is_default & _in_topologies(vertices, job_settings, has_regions)
    regions = sorted_vertices["pipelined_region"].to_numpy()
    first = _first_of_groups(vertices, regions, of_topologies, is_default, by_region)
    is_first = first == np.arange(len(first))
    return vertices.hstack(sorted_vertices).with_columns(
        pl.Series("slot_sharing_group", number_in_turn(first, of_topologies.starts), dtype=pl.Int32),
        pl.Series("group_place", (np.cumsum(is_first) - 1)[first], dtype=pl.Int32),
    )


def with_index_prefix(numbered: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The vertices with their place in the topological order before their names, where that is asked for."""
    is_prefixed = _in_topologies(numbered, job_settings, pl.col("vertex_name_include_index_prefix"))
    if not is_prefixed.any():
        return numbered
    prefixed = pl.concat_str(pl.lit("[vertex-"), "topological_order", pl.lit("]"), "name")
    return numbered.with_columns(
        pl.when(pl.Series(values=is_prefixed)).then(prefixed).otherwise("name").alias("name")
    )


def _in_topologies(vertices: pl.DataFrame, job_settings: pl.DataFrame, condition: pl.Expr) -> Flags:
    """Whether the condition holds for the settings of each vertex's topology."""
    holds = job_settings.select(condition).to_series().to_numpy()
    if not holds.any():
        return np.zeros(len(vertices), np.bool_)
    of_vertices: Flags = holds[places(vertices, job_settings, {})]
    return of_vertices


def _first_of_groups(
    vertices: pl.DataFrame, regions: Ints, topologies: Runs, is_default: Flags, by_region: Flags
) -> Ints:
    """The first vertex created in each vertex's group: groups have a name, or are a region of `default`."""
    count = len(vertices)
    numbers = topologies.of_row.copy()
    numbers[by_region] = count + (topologies.starts[topologies.of_row] + regions)[by_region]
    named = np.flatnonzero(~is_default)
    of_names = groups(vertices.select(TOPOLOGY, "slot_sharing_group_name")[named], "slot_sharing_group_name")
    numbers[named] = 2 * count + of_names
    return first_rows(numbers)


def number_co_location_groups(grouped_vertices: pl.DataFrame) -> pl.DataFrame:
    """The finished job vertices.

    Columns and source: see joins.number_slot_sharing_groups.

    Example: tests/passes/fixtures/job_vertices.txt.
    """
    return grouped_vertices.with_columns(number_co_locations(grouped_vertices)).select(
        *JOB_VERTICES.names, "slot_sharing_group_name", "co_location_group_name", "group_place"
    )


def number_co_locations(grouped_vertices: pl.DataFrame) -> pl.Series:
    """The co_location_group of each vertex, by its co_location_group_name."""
    located = np.flatnonzero(grouped_vertices["co_location_group_name"].is_not_null().to_numpy())
    of_located = grouped_vertices.select(TOPOLOGY, "co_location_group_name")[located]
    first = groups(of_located, "co_location_group_name")
    numbers = np.full(len(grouped_vertices), _NONE, np.int32)
    numbers[located] = number_in_turn(first, runs(of_located[TOPOLOGY].to_numpy()).starts)
    return pl.Series("co_location_group", numbers).replace(_NONE, None)


def slot_sharing_groups(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """In: job_vertices (see number_slot_sharing_groups). Out: slot_sharing_groups.

    Example: tests/passes/fixtures/slot_sharing_groups.txt.
    """
    of_vertices, parallelism = (job_vertices[name].to_numpy() for name in ("group_place", "parallelism"))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(of_vertices), prepend=-1))
    largest = np.full(len(first), np.iinfo(np.int32).min, np.int32)
    np.maximum.at(largest, of_vertices, parallelism)
    return job_vertices.select(TOPOLOGY, "slot_sharing_group", name="slot_sharing_group_name")[
        first
    ].with_columns(
        vertices=pl.Series(np.bincount(of_vertices), dtype=pl.Int32),
        max_vertex_parallelism=pl.Series(largest),
    )


def co_location_groups(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """In: job_vertices (see number_co_location_groups). Out: co_location_groups.

    Example: tests/passes/fixtures/co_location_groups.txt.
    """
    groups = job_vertices.select(
        TOPOLOGY, "co_location_group", "co_location_group_name", "slot_sharing_group"
    )
    located = groups.filter(pl.col("co_location_group").is_not_null())
    return located.group_by(TOPOLOGY, "co_location_group", maintain_order=True).agg(
        pl.col("co_location_group_name").first().alias("name"),
        pl.col("slot_sharing_group").min(),
        pl.len().cast(pl.Int32).alias("vertices"),
    )


def sort_vertices_topologically(vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per row of vertices: creation_order, topological_order, pipelined_region.

    Columns and source: see joins.sort_vertices_topologically.

    Example: tests/passes/fixtures/sorted_vertices.txt.
    """
    of_topologies = runs(vertices[TOPOLOGY].to_numpy())
    sources, targets, output_index, consumer_index = (
        connected_edges[name].to_numpy().astype(np.int64)
        for name in ("source_place", "target_place", "output_index", "consumer_index")
    )
    data_sets = sources << 32 | output_index
    are_shared = consumer_index.any()
    consumed = np.lexsort((consumer_index, data_sets)) if are_shared else np.argsort(data_sets)
    pipelined = connected_edges.select(pl.col("result_partition_type").is_in(MUST_BE_PIPELINED_TYPES))
    order, regions = order_and_regions(
        np.append(of_topologies.starts, len(vertices)),
        sources[consumed],
        targets[consumed],
        pipelined.to_series().to_numpy()[consumed],
    )
    return pl.DataFrame(
        {
            "creation_order": of_topologies.numbers().astype(np.int32),
            "topological_order": order.astype(np.int32),
            "pipelined_region": regions.astype(np.int32),
        }
    )
