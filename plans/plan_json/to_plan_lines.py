"""Write plan JSON lines (docs/plan-json.md) from the tables of a plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html.entities import codepoint2name
from typing import NamedTuple

import orjson
import polars as pl

from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.polars_frames import join_topology, rename
from penstock.plans.plan_json.to_topology_lines import (
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
from penstock.plans.vocabulary import Kind

# Flink's two views of a plan: its REST API's plan of the JobGraph, and getExecutionPlan().


_EMPTY = '"error":"RuntimeException","message":"JSON plan creation failed"'
"""Flink's response for a job without operators. Source: StreamGraph.getStreamingPlanAsJSON."""


def view_lines(tables: Tables, view: Parts) -> pl.DataFrame:
    """(name, line): one row per planned topology with its `view`, and one per row of `rejected`.

    In the order of `topologies` and `rejected`. Every topology with a stream node must be in `view`.
    """
    rejected = tables["rejected"]
    topologies = tables["topologies"].with_columns(pl.int_range(pl.len()).alias("place"))
    has_nodes = topologies[TOPOLOGY].is_in(tables["stream_nodes"][TOPOLOGY].unique().implode())
    named: Parts = ['{"name":', topologies.select(TOPOLOGY, quoted(pl.col("name")).alias("json")), ","]
    texts = [
        *parts_of_topologies(named, topologies),
        *parts_of_topologies(view, topologies.filter(has_nodes)),
        *parts_of_topologies([_EMPTY], topologies.filter(~has_nodes)),
        *parts_of_topologies(["}"], topologies),
    ]
    refusal = json_object(values(rejected, "name", "error", "message"), keep_nulls=True)
    places = pl.int_range(pl.len()).alias("place") + len(topologies)
    texts.append(rejected.select(places, refusal.alias("json")))
    return pl.DataFrame(
        {"name": pl.concat([topologies["name"], rejected["name"]]), "line": join_parts(texts)}
    )


FLINK_PLAN_COLUMNS = {
    "topologies": (TOPOLOGY, "name"),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "job_settings": (TOPOLOGY, "job_type", "vertex_description_mode"),
    "stream_nodes": (TOPOLOGY, "id", "name", "description"),
    "stream_edges": (TOPOLOGY, "source", "target", "in_index", "out_index", "chainable", "chained_source"),
    "job_vertices": (TOPOLOGY, "vertex", "vertex_id", "parallelism", "creation_order"),
    "job_edges": (TOPOLOGY, "target_vertex", "input_index", "source_vertex", "data_set_id", "ship_strategy"),
    "intermediate_data_sets": (TOPOLOGY, "vertex", "data_set_id", "result_partition_type"),
}
"""The columns read by to_flink_plan_lines, by table."""


def to_flink_plan_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`, in the order of the tables.

    `jid` is omitted, because Flink draws it at random. Raises NotEnoughMemoryError as describe_vertices.
    Source: org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator.
    """
    vertices = join_topology(
        describe_vertices(tables), _view_inputs(tables), {"vertex": "target_vertex"}, "left"
    )
    members = {
        "id": quoted(pl.col("vertex_id")),
        "operator": pl.lit('""'),
        "parallelism": pl.col("parallelism").cast(pl.String),
        "operator_strategy": pl.lit('""'),
        "description": quoted(pl.col("description")),
        "optimizer_properties": pl.lit("{}"),
        "inputs": pl.col("inputs"),
    }
    # As after execute(name), which overrides pipeline.name.
    names = tables["topologies"].select(TOPOLOGY, "name")
    jobs = join_topology(names, tables["job_settings"].select(TOPOLOGY, "job_type"), {})
    head = jobs.select(TOPOLOGY, json=json_object(values(jobs, name="name", type="job_type")).str.head(-1))
    nodes = listed(vertices, ["creation_order"], json_object(members))
    return view_lines(tables, ['"flink_plan":', head, ',"nodes":[', *nodes, "]}"])


def _view_inputs(tables: Tables) -> pl.DataFrame:
    """(topology_id, target_vertex, inputs): the job edges that a vertex reads as a JSON list."""
    vertices, data_sets = tables["job_vertices"], tables["intermediate_data_sets"]
    edges = join_topology(
        tables["job_edges"].select(FLINK_PLAN_COLUMNS["job_edges"]),
        vertices.select(TOPOLOGY, "vertex", "vertex_id"),
        {"source_vertex": "vertex"},
    )
    types = data_sets.select(
        TOPOLOGY, "vertex", "data_set_id", exchange=pl.col("result_partition_type").str.to_lowercase()
    )
    typed = join_topology(edges, types, {"source_vertex": "vertex", "data_set_id": "data_set_id"})
    written = values(
        typed, id="vertex_id", num="input_index", exchange="exchange", ship_strategy="ship_strategy"
    )
    lists = json_lists(typed, [TOPOLOGY, "target_vertex"], ["input_index"], json_object(written))
    return lists.rename({"json": "inputs"})


EXECUTION_PLAN_COLUMNS = {
    "topologies": (TOPOLOGY, "name", "stream_graph_settings"),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "transformations": (TOPOLOGY, "id", "kind", "sink_topology"),
    "stream_nodes": (TOPOLOGY, "id", "name", "description", "parallelism", "among_sources", "transformation"),
    "stream_edges": (TOPOLOGY, "source", "target", "in_index", "partitioner"),
}
"""The columns read by to_execution_plan_lines, by table."""


def to_execution_plan_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`, in the order of the tables.

    Nodes are in the order of their ids, sinks last. Source:
    org.apache.flink.streaming.api.graph.JSONGenerator.
    """
    nodes = join_topology(tables["stream_nodes"], _sinks(tables), {"id": "sink_id"}, "left")
    nodes = join_topology(nodes, _predecessors(tables["stream_edges"]), {"id": "target"}, "left")
    is_source = pl.col("among_sources")
    is_sink = pl.col("sink").fill_null(False)
    pact = pl.when(is_source).then(pl.lit("Data Source")).when(is_sink).then(pl.lit("Data Sink"))
    members = {
        "id": pl.col("id").cast(pl.String),
        "type": quoted(pl.col("name")),
        "pact": quoted(pact.otherwise(pl.lit("Operator"))),
        "contents": quoted(SHOWN),
        "parallelism": pl.col("parallelism").cast(pl.String),
        "predecessors": pl.when(~is_source).then(pl.col("predecessors").fill_null("[]")),
    }
    ordered = nodes.with_columns(last=is_sink)
    listed_nodes = listed(ordered, ["last", "id"], json_object(members))
    return view_lines(tables, ['"execution_plan":{"nodes":[', *listed_nodes, "]}"])


def _predecessors(edges: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, target, predecessors): the inputs of a node as a JSON list."""
    members = values(edges, id="source", ship_strategy="partitioner")
    # JSONGenerator counts the entry before it checks for the first: all are "second".
    members["side"] = pl.lit('"second"')
    lists = json_lists(edges, [TOPOLOGY, "target"], ["in_index"], json_object(members))
    return lists.rename({"json": "predecessors"})


def _sinks(tables: Tables) -> pl.DataFrame:
    """(topology_id, sink_id, sink): the nodes that Flink registers as sinks."""
    is_sink = (pl.col("kind") == Kind.SINK) & pl.col("sink_topology").is_null()
    written = tables["transformations"].filter(is_sink).select(TOPOLOGY, transformation="id")
    nodes = tables["stream_nodes"].select(TOPOLOGY, "transformation", sink_id="id")
    sinks = join_topology(nodes, written, {"transformation": "transformation"}, "semi").drop("transformation")
    given_graphs = tables["topologies"].filter(pl.col("stream_graph_settings").is_not_null())
    rows = [
        (topology, sink)
        for topology, settings in given_graphs.select(TOPOLOGY, "stream_graph_settings").iter_rows()
        for sink in orjson.loads(settings)["sinks"]
    ]
    both = pl.concat([sinks, pl.DataFrame(rows, sinks.schema, orient="row")])
    return both.unique().with_columns(sink=pl.lit(value=True))


# Flink's description of each job vertex: the operators of its chain, as a tree or on one line.
#
# Source: StreamingJobGraphGenerator.setVertexDescription; JsonPlanGenerator, which writes it as HTML.


LONGEST_DESCRIPTION = 1 << 28
"""The most characters. The tree of a chain of n operators has 3 n² / 2, so the limit is at some 13,000
operators."""

_AS_HTML = {chr(code): f"&{name};" for code, name in codepoint2name.items()} | {
    "\n": "<br/>",
    "\\": "&#92;",
}
"""As org.apache.commons.text.StringEscapeUtils.escapeHtml4, and the replacements of JsonPlanGenerator after
it."""

SHOWN = pl.coalesce("description", "name")
"""Flink's description of a stream node: Transformation.getDescription, by default the name."""

Children = Sequence[Sequence[int]]
Describe = Callable[[int, Children, Sequence[str]], Iterator[str]]


def describe_vertices(tables: Tables) -> pl.DataFrame:
    """Return `job_vertices` with `description`, HTML, in the vertex_description_mode of the job.

    Raises NotEnoughMemoryError if a description would be longer than LONGEST_DESCRIPTION.
    """
    nodes = tables["stream_nodes"].with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    rows = nodes.select(TOPOLOGY, "id", "row")
    edges = join_topology(tables["stream_edges"], rows.rename({"row": "source_row"}), {"source": "id"})
    edges = join_topology(edges, rows.rename({"row": "target_row"}), {"target": "id"})
    texts = _with_chained_sources(nodes.select(SHOWN).to_series().to_list(), edges)
    children: list[list[int]] = [[] for _ in texts]
    chained = edges.filter(pl.col("chainable") & ~pl.col("chained_source")).sort("source_row", "out_index")
    for source, target in chained.select("source_row", "target_row").iter_rows():
        children[source].append(target)
    modes = tables["job_settings"].select(TOPOLOGY, "vertex_description_mode")
    vertices = join_topology(join_topology(tables["job_vertices"], rows, {"vertex": "id"}), modes, {})
    described = [
        "".join(_DESCRIBE[mode](head, children, texts))
        for head, mode in vertices.select("row", "vertex_description_mode").iter_rows()
    ]
    description = pl.Series("description", described, pl.String).str.replace_many(_AS_HTML)
    return vertices.with_columns(description)


def _with_chained_sources(names: list[str], edges: pl.DataFrame) -> list[str]:
    """Return the descriptions of all nodes; those of multiple-input heads include the sources that run
    inside.
    """
    sources: dict[int, list[str]] = {}
    inside = edges.filter(pl.col("chained_source")).sort("target_row", "in_index")
    for source, target in inside.select("source_row", "target_row").iter_rows():
        sources.setdefault(target, []).append(names[source])
    texts = names.copy()
    for target, inputs in sources.items():
        texts[target] = f"{names[target]} [{', '.join(inputs)}]"
    return texts


def _tree(head: int, children: Children, texts: Sequence[str]) -> Iterator[str]:
    """Yield one line per operator, indented by its depth."""
    characters = 0
    waiting = [(head, "", "")]
    while waiting:
        node, prefix, below = waiting.pop()
        characters += len(prefix) + len(texts[node])
        if characters > LONGEST_DESCRIPTION:
            raise NotEnoughMemoryError(
                f"the chain of {texts[head]!r} is too long to describe it as a tree, as Flink does",
                "set pipeline.vertex-description-mode to CASCADING, and plan again",
            )
        yield f"{prefix}{texts[node]}\n"
        mine = children[node]
        if mine:
            waiting.append((mine[-1], f"{below}+- ", f"{below}   "))
            waiting += [(child, f"{below}:- ", f"{below}:  ") for child in mine[-2::-1]]


def _cascade(head: int, children: Children, texts: Sequence[str]) -> Iterator[str]:
    """Yield all operators on one line: a -> (b -> c , d)."""
    waiting: list[int | str] = [head]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
            continue
        yield texts[part]
        if mine := children[part]:
            yield " -> " if len(mine) == 1 else " -> ("
            if len(mine) > 1:
                waiting.append(")")
            for place, child in enumerate(reversed(mine)):
                if place:
                    waiting.append(" , ")
                waiting.append(child)


_DESCRIBE: dict[str, Describe] = {"TREE": _tree, "CASCADING": _cascade}


class Section(NamedTuple):
    """One key of a plan line, written if the plan has all of `tables`."""

    key: str
    tables: tuple[str, ...]
    empty: str  #: value for a topology without operators


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

    `tables`: tables of plans.tables; a layer without tables is omitted.
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
    """Yield the line of the only topology, which was planned; the tables of one section at a time are in
    memory.

    `tables`: as for to_plan_lines, with the rows of that topology.
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
    node_json = json_object(values(nodes, *NODE_KEYS), keep_nulls=True)
    edge_json = json_object(values(edges, *EDGE_KEYS), keep_nulls=True)
    yield '{"nodes":['
    yield from listed(nodes, ["id"], node_json)
    yield '],"edges":['
    yield from listed(edges, ["source", "out_index"], edge_json)
    yield "]}"


def _job_graph(tables: Tables) -> Parts:
    vertices, operators = tables["job_vertices"], tables["chained_operators"]
    ids = values(operators, "operator_id", "user_defined_operator_id")
    pair = in_list(pl.concat_str(*ids.values(), separator=",", ignore_nulls=True))
    placed = operators.filter(pl.col("operator_order").is_not_null())
    data_sets = tables["intermediate_data_sets"]
    data_set_values = values(
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
        "outputs": json_lists(data_sets, _VERTEX, ["output_index"], json_object(data_set_values)),
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
    """One list per subtask, of the single range that it reads."""
    return pl.concat_str(pl.lit("[["), first, pl.lit(","), last, pl.lit("]]"))


def _continued(own: str, *lists: str) -> pl.Expr:
    """Extend the JSON object `own` by further members, JSON lists that are empty if null."""
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
