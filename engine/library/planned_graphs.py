"""Nodes, edges and partitions of each layer of a plan, and graphs for GraphFrames, networkx and igraph."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import one_of
from penstock.engine.library.given_topologies import is_spark_frame
from penstock.engine.output.pieces import html_table
from penstock.engine.views.draw.graph import import_networkx
from penstock.plans.errors import ConfigurationError
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

NAME = "topology"
"""Column: the topology's name, beside the columns of the plan's own tables."""

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
    """All topologies of one layer as a graph: `vertices` with a column `id`, `edges` with `src` and `dst`.

    Both are DataFrames of Spark, as `GraphFrame(*graph)` takes them, or Arrow tables. An id is the topology's
    id and the numbers of the node, with slashes between.
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
        """A networkx.MultiDiGraph, with the other columns as attributes.

        ConfigurationError where networkx, of the extra `graphs`, is not installed.
        """
        networkx = import_networkx()

        graph = networkx.MultiDiGraph()
        graph.add_nodes_from((row.pop("id"), row) for row in _rows(self.vertices))
        graph.add_edges_from((row.pop("src"), row.pop("dst"), row) for row in _rows(self.edges))
        return graph

    def to_igraph(self) -> Any:
        """A directed igraph.Graph, whose vertices have their id as `name`; this needs igraph."""
        import igraph

        vertices = [
            {"name": row.pop("id"), **{_igraph(k): v for k, v in row.items()}} for row in _rows(self.vertices)
        ]
        edges = [
            {"source": row.pop("src"), "target": row.pop("dst"), **{_igraph(k): v for k, v in row.items()}}
            for row in _rows(self.edges)
        ]
        return igraph.Graph.DictList(vertices, edges, directed=True)


def nodes(tables: Mapping[str, Any], layer: Any, aside: Any = None, taken: Sequence[str] = ()) -> Any:
    """The nodes of a layer, each with the name of its topology. `taken`: names for columns that come yet."""
    return with_names(tables, tables[NODES[_layer(layer, tables, NODES)][0]], aside, taken)


def edges(tables: Mapping[str, Any], layer: Any, aside: Any = None, taken: Sequence[str] = ()) -> Any:
    """The edges of a layer, as `nodes`."""
    chosen = _layer(layer, tables, EDGES)
    rows = _inputs(tables["transformations"]) if chosen is Layer.TOPOLOGY else tables[EDGES[chosen][0]]
    return with_names(tables, rows, aside, taken)


def partitions(tables: Mapping[str, Any], layer: Any, aside: Any = None) -> Any:
    """The outputs of a layer's vertices, each with the name of its topology."""
    return with_names(tables, tables[PARTITIONS[_layer(layer, tables, PARTITIONS)]], aside)


def graph(tables: Mapping[str, Any], layer: Any, aside: Any = None) -> Graph[Any]:
    """The graph of a layer."""
    chosen = _layer(layer, tables, NODES)
    _, keys = NODES[chosen]
    _, sources, targets = EDGES[chosen]
    edge_rows = edges(tables, chosen, aside, ("id", "node", "src", "dst", "source_subtask", "source_vertex"))
    if chosen is Layer.EXECUTION_GRAPH:
        edge_rows = _between_subtasks(edge_rows, tables["job_edges"])
    return Graph(
        _with_ids(nodes(tables, chosen, aside, ("id", "node")), {"id": keys}),
        _with_ids(edge_rows, {"src": sources, "dst": targets}),
    )


def _layer(layer: Any, tables: Mapping[str, Any], known: Mapping[Layer, Any]) -> Layer:
    """The layer asked for; None: the last one that is planned."""
    there = [
        known_layer
        for known_layer, table_names in known.items()
        if (table_names if isinstance(table_names, str) else table_names[0]) in tables
    ]
    if not there:
        raise ConfigurationError("the plan ends before any layer that has them", "plan until a later layer")
    return there[-1] if layer is None else Layer(one_of("layer", str(layer), list(map(str, there))))


def with_names(tables: Mapping[str, Any], rows: Any, aside: Any = None, taken: Sequence[str] = ()) -> Any:
    """`rows`, each with the name of its topology in `topology`, and the columns `aside` of the caller."""
    names = tables["topologies"]
    if is_spark_frame(rows):
        named = names.select(TOPOLOGY, names["name"].alias(NAME))
        beside: list[Any] = []
        if aside is not None:
            beside = [quoted(column) for column in _beside(aside.columns, [*rows.columns, *taken])]
            of_name = aside.dropDuplicates(["name"]).selectExpr(f"name as {NAME}", *beside)
            named = named.join(of_name, NAME, "left")
        return rows.join(named, TOPOLOGY, "left").select(
            TOPOLOGY, NAME, *beside, *(c for c in rows.columns if c != TOPOLOGY)
        )
    here = _polars(names).select(TOPOLOGY, pl.col("name").alias(NAME))
    if aside is not None:
        of_name = _polars(aside).unique("name", keep="first")
        of_name = of_name.select(
            pl.col("name").alias(NAME), *_beside(of_name.columns, [*rows.column_names, *taken])
        )
        here = here.join(of_name, on=NAME, how="left")
    polars_rows = _polars(rows)
    joined = polars_rows.join(here, on=TOPOLOGY, how="left", maintain_order="left")
    return joined.select(*here.columns, *(c for c in polars_rows.columns if c != TOPOLOGY)).to_arrow(
        compat_level=pl.CompatLevel.oldest()
    )


def _beside(columns: Sequence[str], own: Sequence[str]) -> list[str]:
    """The columns of the caller's that can stand beside a table's own, whatever the case of their names."""
    taken = {column.lower() for column in (*own, NAME, "name")}
    return [column for column in columns if column.lower() not in taken]


def quoted(name: str) -> str:
    """A name of a column as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


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
    """Edges from the subtask of each partition that is read."""
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
    """`rows` with columns of ids before them; their own column `id` is `node` then."""
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
    """igraph keeps the name `name` for what a vertex is found by, `source` and `target` for the ends."""
    return {"name": "label", "source": "source_node", "target": "target_node"}.get(name, name)
