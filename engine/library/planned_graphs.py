"""Nodes, edges and partitions of each layer of a plan, and graphs for GraphFrames, networkx and igraph."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import one_of
from penstock.engine.library.given_topologies import is_spark_frame, quoted
from penstock.engine.output.pieces import html_table
from penstock.plans.errors import ConfigurationError
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

NAME = "topology"
"""The column with the topology's name, in addition to the columns of the plan's own tables."""

NODES = {
    Layer.TOPOLOGY: ("transformations", ("id",)),
    Layer.STREAM_GRAPH: ("stream_nodes", ("id",)),
    Layer.JOB_GRAPH: ("job_vertices", ("vertex",)),
    Layer.EXECUTION_GRAPH: ("execution_vertices", ("vertex", "subtask")),
}
EDGES = {
    Layer.TOPOLOGY: ("transformations", ("source",), ("target",)),
    Layer.STREAM_GRAPH: ("stream_edges", ("source",), ("target",)),
    Layer.JOB_GRAPH: ("job_edges", ("source_vertex",), ("target_vertex",)),
    Layer.EXECUTION_GRAPH: (
        "execution_edges",
        ("source_vertex", "source_subtask"),
        ("target_vertex", "subtask"),
    ),
}
PARTITIONS = {
    Layer.JOB_GRAPH: "intermediate_data_sets",
    Layer.EXECUTION_GRAPH: "intermediate_result_partitions",
}


T = TypeVar("T")


class Graph(NamedTuple, Generic[T]):
    """All topologies of one layer as a graph, as `GraphFrame(*graph)` takes it.

    Attributes:
        vertices: An Arrow table or DataFrame with a column `id`: the topology's id and the numbers of the
            node, with slashes between.
        edges: An Arrow table or DataFrame with columns `src` and `dst`.
    """

    vertices: T
    edges: T

    def __repr__(self) -> str:
        if is_spark_frame(self.vertices):
            return "<penstock.Graph: DataFrames of Spark>"
        vertices, edges = (rows.num_rows for rows in self)  # type: ignore[attr-defined]
        return f"<penstock.Graph: {vertices:,} vertices, {edges:,} edges>"

    def _repr_html_(self) -> str:
        return html_table(repr(self)[10:-1], ("table",), [("vertices",), ("edges",)])

    def to_networkx(self) -> Any:
        """Return a networkx.MultiDiGraph, with the other columns as attributes.

        Raises:
            ConfigurationError: networkx is not installed (extra `graphs`).
        """
        from penstock.engine.views.draw.graph import import_networkx  # imports igraph, and that matplotlib

        networkx = import_networkx()

        graph = networkx.MultiDiGraph()
        graph.add_nodes_from((row.pop("id"), row) for row in _rows(self.vertices))
        graph.add_edges_from((row.pop("src"), row.pop("dst"), row) for row in _rows(self.edges))
        return graph

    def to_igraph(self) -> Any:
        """Return a directed igraph.Graph, whose vertices have their id as `name`."""
        import igraph

        vertices = [
            {"name": row.pop("id"), **{_igraph(k): v for k, v in row.items()}} for row in _rows(self.vertices)
        ]
        edges = [
            {"source": row.pop("src"), "target": row.pop("dst"), **{_igraph(k): v for k, v in row.items()}}
            for row in _rows(self.edges)
        ]
        return igraph.Graph.DictList(vertices, edges, directed=True)


def nodes(tables: Mapping[str, Any], layer: Any, ignored: Any = None, taken: Sequence[str] = ()) -> Any:
    """Return the nodes of a layer with the names of their topologies. `taken`: columns added later."""
    return with_names(tables, tables[NODES[_layer(layer, tables, NODES)][0]], ignored, taken)


def edges(tables: Mapping[str, Any], layer: Any, ignored: Any = None, taken: Sequence[str] = ()) -> Any:
    """Return the edges of a layer, like `nodes`."""
    chosen = _layer(layer, tables, EDGES)
    rows = _inputs(tables["transformations"]) if chosen is Layer.TOPOLOGY else tables[EDGES[chosen][0]]
    return with_names(tables, rows, ignored, taken)


def partitions(tables: Mapping[str, Any], layer: Any, ignored: Any = None) -> Any:
    """Return the outputs of a layer's vertices, each with the name of its topology."""
    return with_names(tables, tables[PARTITIONS[_layer(layer, tables, PARTITIONS)]], ignored)


def graph(tables: Mapping[str, Any], layer: Any, ignored: Any = None) -> Graph[Any]:
    """Return the graph of a layer."""
    chosen = _layer(layer, tables, NODES)
    _, keys = NODES[chosen]
    _, sources, targets = EDGES[chosen]
    edge_rows = edges(
        tables, chosen, ignored, ("id", "node", "src", "dst", "source_subtask", "source_vertex")
    )
    if chosen is Layer.EXECUTION_GRAPH:
        edge_rows = _between_subtasks(edge_rows, tables["job_edges"])
    return Graph(
        _with_ids(nodes(tables, chosen, ignored, ("id", "node")), {"id": keys}),
        _with_ids(edge_rows, {"src": sources, "dst": targets}),
    )


def _layer(layer: Any, tables: Mapping[str, Any], known: Mapping[Layer, Any]) -> Layer:
    """Return the requested layer, by default the last one that is planned."""
    planned_layers = [
        known_layer
        for known_layer, table_names in known.items()
        if (table_names if isinstance(table_names, str) else table_names[0]) in tables
    ]
    if not planned_layers:
        raise ConfigurationError("the plan ends too early for this call", "plan until a later layer")
    if layer is None:
        return planned_layers[-1]
    return Layer(one_of("layer", str(layer), list(map(str, planned_layers))))


def with_names(tables: Mapping[str, Any], rows: Any, ignored: Any = None, taken: Sequence[str] = ()) -> Any:
    """Return `rows`, each with the name of its topology in `topology`, and the caller's columns `ignored`."""
    names = tables["topologies"]
    if is_spark_frame(rows):
        named = names.select(TOPOLOGY, names["name"].alias(NAME))
        extra_columns: list[Any] = []
        if ignored is not None:
            extra_columns = [
                quoted(column) for column in _without_clashes(ignored.columns, [*rows.columns, *taken])
            ]
            ignored_by_name = ignored.dropDuplicates(["name"]).selectExpr(f"name as {NAME}", *extra_columns)
            named = named.join(ignored_by_name, NAME, "left")
        return rows.join(named, TOPOLOGY, "left").select(
            TOPOLOGY, NAME, *extra_columns, *(c for c in rows.columns if c != TOPOLOGY)
        )
    named_frame = _polars(names).select(TOPOLOGY, pl.col("name").alias(NAME))
    if ignored is not None:
        ignored_by_name = _polars(ignored).unique("name", keep="first")
        ignored_by_name = ignored_by_name.select(
            pl.col("name").alias(NAME),
            *_without_clashes(ignored_by_name.columns, [*rows.column_names, *taken]),
        )
        named_frame = named_frame.join(ignored_by_name, on=NAME, how="left")
    polars_rows = _polars(rows)
    joined = polars_rows.join(named_frame, on=TOPOLOGY, how="left", maintain_order="left")
    return joined.select(*named_frame.columns, *(c for c in polars_rows.columns if c != TOPOLOGY)).to_arrow(
        compat_level=pl.CompatLevel.oldest()
    )


def _without_clashes(columns: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return the caller's columns that do not clash with a table's own, ignoring case."""
    taken = {column.lower() for column in (*own, NAME, "name")}
    return [column for column in columns if column.lower() not in taken]


def _inputs(rows: Any) -> Any:
    if is_spark_frame(rows):
        from pyspark.sql import functions as F

        places = F.posexplode("inputs").alias("in_index", "source")
        return rows.select(TOPOLOGY, rows["id"].alias("target"), places)
    return (
        _polars(rows)
        .select(
            TOPOLOGY,
            pl.col("id").alias("target"),
            pl.int_ranges(pl.col("inputs").list.len(), dtype=pl.Int32).alias("in_index"),
            pl.col("inputs").alias("source"),
        )
        .filter(pl.col("source").list.len() > 0)
        .explode("in_index", "source")
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )


def _between_subtasks(rows: Any, job_edges: Any) -> Any:
    """Return edges from the subtask of each partition that is read."""
    on = [TOPOLOGY, "target_vertex", "input_index"]
    if is_spark_frame(rows):
        from pyspark.sql import functions as F

        wide = rows.join(job_edges.select(*on, "source_vertex"), on)
        return wide.withColumn("source_subtask", F.explode(F.sequence("first_partition", "last_partition")))
    return (
        _polars(rows)
        .join(_polars(job_edges).select(*on, "source_vertex"), on=on)
        .with_columns(
            pl.int_ranges(pl.col("first_partition"), pl.col("last_partition") + 1).alias("source_subtask")
        )
        .explode("source_subtask")
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )


def _with_ids(rows: Any, ids: Mapping[str, Sequence[str]]) -> Any:
    """Return `rows` with columns of ids in front; their own column `id` becomes `node`."""
    if is_spark_frame(rows):
        from pyspark.sql import functions as F

        rows = rows.withColumnRenamed("id", "node") if "id" in rows.columns else rows
        id_columns = [
            F.concat_ws("/", TOPOLOGY, *("node" if key == "id" else key for key in keys)).alias(name)
            for name, keys in ids.items()
        ]
        return rows.select(*id_columns, "*")
    table = _polars(rows)
    table = table.rename({"id": "node"}) if "id" in table.columns else table
    columns = [
        pl.concat_str(
            [pl.col(key).cast(pl.String) for key in (TOPOLOGY, *("node" if k == "id" else k for k in keys))],
            separator="/",
        ).alias(name)
        for name, keys in ids.items()
    ]
    return table.select(*columns, pl.all()).to_arrow(compat_level=pl.CompatLevel.oldest())


def _polars(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _rows(table: Any) -> list[dict[str, Any]]:
    arrow: pa.Table = table
    if is_spark_frame(table):
        from penstock.engine.run.runtime.spark_application import in_running_session

        with in_running_session(table.sparkSession, "graph"):
            arrow = table.toArrow()
    rows: list[dict[str, Any]] = arrow.to_pylist()
    return rows


def _igraph(name: str) -> str:
    """Rename attributes that igraph reserves (`name` finds a vertex, `source` and `target` are ends)."""
    return {"name": "label", "source": "source_node", "target": "target_node"}.get(name, name)
