"""Plan JSON lines (docs/plan-json.md) from the tables of a plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from penstock.plans.frames.polars_frames import join_topology, rename
from penstock.plans.plan_json.columnar.to_topology_lines import (
    Parts,
    Tables,
    double_maps,
    in_list,
    join_parts,
    json_lists,
    json_object,
    listed,
    parts_of_topologies,
    quoted,
    text_of_parts,
    values,
)
from penstock.plans.tables.column_types import TOPOLOGY


class Section(NamedTuple):
    """One key of a plan line: written where the plan has all of `tables`."""

    key: str
    tables: tuple[str, ...]
    empty: str  #: of a topology without operators


SECTIONS = (
    Section("stream_graph", ("stream_nodes", "stream_edges"), '{"nodes":[],"edges":[]}'),
    Section(
        "job_graph",
        ("job_vertices", "chained_operators", "job_edges", "intermediate_data_sets"),
        '{"vertices":[],"topological_order":[]}',
    ),
    Section(
        "execution_graph",
        ("job_vertices", "job_edges", "execution_job_vertices", "execution_edges"),
        '{"vertices":[]}',
    ),
    Section("slots", ("job_vertices", "execution_slot_sharing_groups"), "[]"),
)

NODE_KEYS = (
    "id",
    "name",
    "parallelism",
    "max_parallelism",
    "slot_sharing_group",
    "co_location_group",
    "uid",
    "uid_hash",
    "buffer_timeout",
    "chaining",
)
EDGE_KEYS = (
    "source",
    "target",
    "type_number",
    "partitioner",
    "exchange_mode",
    "output_tag",
    "edge_id",
    "chainable",
)


_VERTEX = [TOPOLOGY, "vertex"]
_EDGE = [TOPOLOGY, "target_vertex", "input_index"]


def to_plan_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`, in the order of the tables.

    `tables`: those of plans.tables; a layer without tables is left out.
    """
    topologies, rejected = tables["topologies"], tables["rejected"]
    planned = topologies.with_columns(pl.int_range(pl.len()).alias("place"))
    parts: Parts = ['{"name":', planned.select(TOPOLOGY, quoted(pl.col("name")).alias("json"))]
    texts = parts_of_topologies(parts, planned)
    for section in SECTIONS:
        if all(table in tables for table in section.tables):
            parts = [f',"{section.key}":', *_JSON[section.key](tables)]
            texts += parts_of_topologies(parts, planned)
    texts += parts_of_topologies(["}"], planned)
    refusal = json_object(values(rejected, "name", "error_stage", "error", "message"), keep_nulls=True)
    texts.append(rejected.select(pl.int_range(pl.len()).alias("place") + len(planned), refusal.alias("json")))
    names = pl.concat([planned["name"], rejected["name"]])
    return pl.DataFrame({"name": names, "line": join_parts(texts)})


def plan_line_in_pieces(tables: Mapping[str, pl.LazyFrame]) -> Iterator[str]:
    """The line of the only topology, which was planned; the tables of one section at a time are in memory.

    `tables`: as of to_plan_lines, with the rows of that topology.
    """
    name = tables["topologies"].select(quoted(pl.col("name"))).collect().item()
    yield f'{{"name":{name}'
    for section in SECTIONS:
        if all(table in tables for table in section.tables):
            yield f',"{section.key}":'
            yield from text_of_parts(_JSON[section.key](_collected(tables, section.tables)))
    yield "}"


def _collected(tables: Mapping[str, pl.LazyFrame], names: Sequence[str]) -> Tables:
    return dict(zip(names, pl.collect_all(tables[name] for name in names), strict=True))


def _stream_graph(tables: Tables) -> Parts:
    nodes, edges = tables["stream_nodes"], tables["stream_edges"]
    of_node = json_object(values(nodes, *NODE_KEYS), keep_nulls=True)
    of_edge = json_object(values(edges, *EDGE_KEYS), keep_nulls=True)
    yield '{"nodes":['
    yield from listed(nodes, ["id"], of_node)
    yield '],"edges":['
    yield from listed(edges, ["source", "out_index"], of_edge)
    yield "]}"


def _job_graph(tables: Tables) -> Parts:
    vertices, operators = tables["job_vertices"], tables["chained_operators"]
    ids = values(operators, "operator_id", "user_defined_operator_id")
    pair = in_list(pl.concat_str(*ids.values(), separator=",", ignore_nulls=True))
    placed = operators.filter(pl.col("operator_order").is_not_null())
    data_sets = tables["intermediate_data_sets"]
    of_data_set = values(
        data_sets,
        "distribution",
        "broadcast",
        "consumers",
        id="data_set_id",
        type="result_partition_type",
    )
    lists = {
        "operator_ids": json_lists(placed, _VERTEX, ["operator_order"], pair),
        "operators": _operators(operators),
        "outputs": json_lists(data_sets, _VERTEX, ["output_index"], json_object(of_data_set)),
        "inputs": _inputs(tables["job_edges"], vertices),
    }
    own = values(
        vertices,
        "name",
        "parallelism",
        "max_parallelism",
        "invokable",
        "slot_sharing_group",
        "co_location_group",
        id="vertex_id",
    )
    written = vertices.select(*_VERTEX, "creation_order", json_object(own).alias("own"))
    for name, rows in lists.items():
        written = join_topology(written, rows.rename({"json": name}), {"vertex": "vertex"}, "left")
    yield '{"vertices":['
    yield from listed(written, ["creation_order"], _continued("own", *lists))
    yield '],"topological_order":['
    yield from listed(vertices, ["topological_order"], quoted(pl.col("vertex_id")))
    yield "]}"


def _operators(operators: pl.DataFrame) -> pl.DataFrame:
    members = values(operators, "node", "operator_id", "name", "chain_index")
    members["managed_memory_fraction"] = pl.col("managed_memory_fraction")
    written = operators.with_columns(double_maps(operators, "managed_memory_fraction"))
    return json_lists(written, _VERTEX, ["chain_index", "node"], json_object(members))


def _inputs(edges: pl.DataFrame, vertices: pl.DataFrame) -> pl.DataFrame:
    located = join_topology(
        edges.rename({"target_vertex": "vertex"}),
        rename(vertices, of_vertex="vertex", source="vertex_id"),
        {"source_vertex": "of_vertex"},
    )
    members = values(
        located,
        "distribution",
        "ship_strategy",
        "type_number",
        "forward",
        "broadcast",
        source="source",
        data_set="data_set_id",
    )
    return json_lists(located, _VERTEX, ["input_index"], json_object(members))


def _execution_graph(tables: Tables) -> Parts:
    vertices = join_topology(
        tables["job_vertices"].select(*_VERTEX, "vertex_id", "topological_order"),
        tables["execution_job_vertices"],
        {"vertex": "vertex"},
    )
    own = values(vertices, "parallelism", "max_parallelism", id="vertex_id")
    written = vertices.select(*_VERTEX, "topological_order", json_object(own).alias("own"))
    gates = json_lists(_gates(tables), _EDGE[:2], _EDGE[2:], pl.col("json")).rename({"json": "inputs"})
    both = join_topology(written, gates, {"vertex": "target_vertex"}, "left")
    yield '{"vertices":['
    yield from listed(both, ["topological_order"], _continued("own", "inputs"))
    yield "]}"


def _gates(tables: Tables) -> pl.DataFrame:
    """(topology_id, target_vertex, input_index, json): the ranges that the subtasks read at every gate."""
    partitions, subpartitions = "partitions_by_subtask", "subpartitions_by_subtask"
    ranges = (
        tables["execution_edges"]
        .sort(*_EDGE, "subtask")
        .group_by(_EDGE, maintain_order=True)
        .agg(
            _range("first_partition", "last_partition").str.join(",").alias(partitions),
            _range("first_subpartition", "last_subpartition").str.join(",").alias(subpartitions),
        )
    )
    ids = tables["job_edges"].select(*_EDGE, "data_set_id")
    gates = join_topology(ranges, ids, {"target_vertex": "target_vertex", "input_index": "input_index"})
    members = values(gates, data_set="data_set_id") | {
        name: in_list(pl.col(name)) for name in (partitions, subpartitions)
    }
    return gates.select(*_EDGE, json_object(members).alias("json"))


def _range(first: str, last: str) -> pl.Expr:
    """One list per subtask, of the one range that it reads."""
    return pl.concat_str(pl.lit("[["), first, pl.lit(","), last, pl.lit("]]"))


def _continued(own: str, *lists: str) -> pl.Expr:
    """The JSON object `own` with further members, JSON lists that are empty where they are null."""
    parts = [part for name in lists for part in (pl.lit(f',"{name}":'), pl.col(name).fill_null("[]"))]
    return pl.concat_str(pl.col(own).str.head(-1), *parts, pl.lit("}"))


def _slots(tables: Tables) -> Parts:
    ids = rename(tables["job_vertices"], vertex="vertex", vertex_id="vertex_id")
    tasks = join_topology(tables["execution_slot_sharing_groups"], ids, {"vertex": "vertex"})
    slot = [TOPOLOGY, "execution_slot_sharing_group"]
    slots = (
        tasks.select(*slot, pl.concat_str("vertex_id", "subtask", separator="_").alias("task"))
        .sort(*slot, "task")
        .group_by(slot, maintain_order=True)
        .agg(pl.col("task").str.join(" ").alias("tasks"))
    )
    yield "["
    yield from listed(slots, ["tasks"], quoted(pl.col("tasks")))
    yield "]"


_JSON: dict[str, Callable[[Tables], Parts]] = {
    "stream_graph": _stream_graph,
    "job_graph": _job_graph,
    "execution_graph": _execution_graph,
    "slots": _slots,
}
