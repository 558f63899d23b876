"""Write the topologies of a plan as topology lines (docs/topology-files.md), which `plan` accepts again."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import orjson
import polars as pl

from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.tables import STREAM_EDGES, STREAM_NODES, TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.canonical_texts import JSON_COLUMNS
from penstock.plans.topology.job_settings import SETTINGS_OF_GRAPHS
from penstock.plans.topology.operator_rules import (
    EDGE_RULES,
    NODE_RULES,
    OPTIONAL_OF_EDGES,
    OPTIONAL_OF_NODES,
)
from penstock.plans.vocabulary import PARTITIONER_CLASSES, Partitioner, TopologyForm

# JSON as expressions over columns, and assembly of lines from parts.


_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(0x20)} | {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_ROWS_PER_PIECE = 8_192
_VALUES_AT_ONCE = 131_072
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def quoted(text: pl.Expr) -> pl.Expr:
    """Return strings as JSON strings; like Jackson, it escapes only control characters, quotes and
    backslashes.
    """
    return pl.concat_str(pl.lit('"'), text.str.replace_many(_ESCAPES), pl.lit('"'))


def values(rows: pl.DataFrame, *names: str, **renamed: str) -> dict[str, pl.Expr]:
    """Return JSON values of columns of `rows` that are strings, numbers or booleans; renamed
    ones come first.
    """
    columns = renamed | {name: name for name in names}
    return {
        key: quoted(pl.col(name)) if rows.schema[name] == pl.String else pl.col(name).cast(pl.String)
        for key, name in columns.items()
    }


def json_object(members: Mapping[str, pl.Expr], keep_nulls: bool = False) -> pl.Expr:
    """Return a JSON object of `members`, which are JSON values; null members are omitted, or written."""
    texts = [
        pl.concat_str(pl.lit(f'"{key}":'), value.fill_null("null") if keep_nulls else value)
        for key, value in members.items()
    ]
    listed = pl.concat_str(texts, separator=",", ignore_nulls=True)
    return pl.concat_str(pl.lit("{"), listed, pl.lit("}"))


def json_lists(rows: pl.DataFrame, keys: list[str], order: list[str], value: pl.Expr) -> pl.DataFrame:
    """(keys, json): for each key a JSON list of the JSON values `value` of its rows, sorted by `order`."""
    ordered = rows.select(*keys, *order, value.alias("json")).sort(*keys, *order)
    joined = ordered.group_by(keys, maintain_order=True).agg(pl.col("json").str.join(","))
    return joined.with_columns(in_list(pl.col("json")).alias("json"))


def in_list(joined: pl.Expr) -> pl.Expr:
    """Return JSON values joined by commas as one JSON list."""
    return pl.concat_str(pl.lit("["), joined, pl.lit("]"))


def double_maps(rows: pl.DataFrame, name: str) -> pl.Series:
    """Return the map column `name` of strings to doubles as JSON objects, row by row."""
    entries = (
        rows.select(pl.int_range(pl.len()).alias("row"), pl.col(name).map.entries().alias("entry"))
        .filter(pl.col("entry").list.len() > 0)
        .explode("entry")
        .unnest("entry")
    )
    # Java and Python both write the shortest digits, but not in the same notation.
    doubles = entries.select(pl.col("value").unique(maintain_order=True))
    texts = doubles.with_columns(pl.Series("text", map(double_text, doubles["value"]), pl.String))
    member = pl.concat_str(quoted(pl.col("key")), pl.lit(":"), "text")
    objects = (
        entries.join(texts, on="value", how="left", maintain_order="left")
        .group_by("row", maintain_order=True)
        .agg(member.str.join(",").alias("joined"))
    )
    listed = rows.select(pl.int_range(pl.len()).alias("row")).join(
        objects, on="row", how="left", maintain_order="left"
    )
    return listed.select(
        pl.concat_str(pl.lit("{"), pl.col("joined").fill_null(""), pl.lit("}")).alias(name)
    ).to_series()


def double_text(value: float) -> str:
    """Return a normal double in Java's notation. Source: java.lang.Double.toString."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}.{rest or '0'}E{number.adjusted()}"


Tables = Mapping[str, pl.DataFrame]
Parts = Iterable[str | pl.DataFrame]
"""Consecutive parts of a text: equal for all topologies, or rows (topology_id, json) in order."""


def parts_of_topologies(parts: Parts, topologies: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the parts of the given topologies as rows (place, json)."""
    places = topologies.select(TOPOLOGY, "place")
    return [
        places.select("place", pl.lit(part).alias("json"))
        if isinstance(part, str)
        else join_topology(part, places, {}).select("place", "json")
        for part in parts
    ]


def text_of_parts(parts: Parts) -> Iterator[str]:
    """Yield the parts of one topology, piece by piece."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        for piece in part.iter_slices(_ROWS_PER_PIECE):
            yield "".join(piece["json"])


def join_parts(texts: list[pl.DataFrame]) -> pl.Series:
    """Return the line of each place, joined once, as polars' operations on columns of long texts take
    quadratic time.
    """
    rows = pl.concat([text.with_columns(pl.lit(part).alias("part")) for part, text in enumerate(texts)])
    in_order = rows.sort("place", "part", maintain_order=True)
    return in_order.group_by("place", maintain_order=True).agg(pl.col("json").str.join(""))["json"]


def listed(rows: pl.DataFrame, order: list[str], value: pl.Expr) -> Iterator[pl.DataFrame]:
    """(topology_id, json): the JSON values `value` in `order`, with commas between values of one topology.

    In consecutive frames, as the values may be long.
    """
    comma = pl.when(pl.col(TOPOLOGY) == pl.col(TOPOLOGY).shift()).then(pl.lit(",")).otherwise(pl.lit(""))
    ordered = rows.sort(TOPOLOGY, *order).with_columns(comma.alias("comma"))
    for piece in ordered.iter_slices(_VALUES_AT_ONCE):
        yield piece.select(TOPOLOGY, pl.concat_str("comma", value).alias("json"))


TOPOLOGY_COLUMNS = {
    "topologies": tuple(n for n in TOPOLOGIES.names if not n.startswith(("source_", "fingerprint"))),
    "rejected": (TOPOLOGY, "name"),
    "transformations": tuple(TRANSFORMATIONS.names),
    "stream_nodes": tuple(STREAM_NODES.names),
    "stream_edges": tuple(n for n in STREAM_EDGES.names if n != "not_chainable_reasons"),
}
"""The columns read by to_topology_lines, by table."""

_TOPOLOGY_KEYS = ("name", "parallelism", "max_parallelism", "config")
_MAPS = ("config", "managed_memory")
_LINES = {"name": pl.String, "line": pl.String}
_STRUCTS = ("min_resources", "preferred_resources")


def to_topology_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology; a plan does not contain the text of refused ones.

    A topology of transformations keeps its fingerprint. A stream graph is the one that was planned; keys that
    planning does not read have their usual values.
    """
    topologies = tables["topologies"]
    lines = pl.DataFrame(schema=_LINES)
    for form, form_rows in topologies.group_by("form", maintain_order=True):
        # Places count the rows of one form.
        rows = form_rows.with_columns(pl.int_range(pl.len()).alias("place"))
        if form[0] == TopologyForm.TRANSFORMATIONS:
            lines.extend(_write_transformations(rows, tables["transformations"]))
        else:
            lines.extend(_write_stream_graphs(rows, tables["stream_nodes"], tables["stream_edges"]))
    return lines


def topology_line_in_pieces(tables: Mapping[str, pl.LazyFrame]) -> Iterator[str]:
    """Yield the line of the only topology, which was planned.

    `tables`: as for to_topology_lines, with the rows of that topology.
    """
    topologies = tables["topologies"].collect()
    if topologies["form"].item() == TopologyForm.TRANSFORMATIONS:
        yield from text_of_parts(_transformations(topologies, tables["transformations"].collect()))
    else:
        names = list(tables)
        yield from to_topology_lines(dict(zip(names, pl.collect_all(tables.values()), strict=True)))["line"]


def _write_transformations(topologies: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    rows = rows.filter(pl.col(TOPOLOGY).is_in(topologies[TOPOLOGY].implode()))
    parts = _transformations(topologies, rows)
    return pl.DataFrame(
        {"name": topologies["name"], "line": join_parts(parts_of_topologies(parts, topologies))},
        _LINES,
    )


def _transformations(topologies: pl.DataFrame, rows: pl.DataFrame) -> Parts:
    text = json_object(
        _values(rows, [name for name in TRANSFORMATIONS.names[1:] if name not in JSON_COLUMNS])
    )
    for name in JSON_COLUMNS:
        if rows[name].null_count() < len(rows):
            keys = pl.col(name).str.slice(1)
            text = pl.coalesce(pl.concat_str(text.str.head(-1), pl.lit(","), keys), text)
    # not by `listed`: the values of some columns are a list in the order of these rows
    texts = rows.select(TOPOLOGY, "id", json=text)
    own = _values(topologies, _TOPOLOGY_KEYS)
    own["chaining"] = pl.when(~pl.col("chaining")).then(pl.lit("false"))
    heads = topologies.select(TOPOLOGY, json_object(own).str.head(-1).alias("json"))
    yield heads
    yield ',"transformations":['
    yield from listed(texts, ["id"], pl.col("json"))
    yield "]}"


def _values(rows: pl.DataFrame, names: tuple[str, ...] | list[str]) -> dict[str, pl.Expr]:
    """Return JSON values of columns; null if a column has no value, so that the key is omitted."""
    values = {}
    for name in names:
        value, kind = pl.col(name), rows.schema[name]
        if rows[name].null_count() == len(rows):
            continue
        if name in _MAPS or name in _STRUCTS or name in ("slot_scope", "names"):
            texts = _texts(rows, name)
            if texts is not None:
                values[name] = texts
        elif name == "inputs":
            joined = in_list(value.cast(pl.List(pl.String)).list.join(","))
            values[name] = pl.when(value.list.len() > 0).then(joined)
        elif name == "name":
            values[name] = pl.when(value != "").then(quoted(value))
        else:
            values[name] = quoted(value) if kind == pl.String else value.cast(pl.String)
    return values


def _texts(rows: pl.DataFrame, name: str) -> pl.Expr | None:
    """Return the JSON of a nested column, which few rows have; null for empty values. None if
    no row has any.
    """
    column = rows[name]
    has_value = column.map.len() > 0 if name in _MAPS else column.is_not_null()
    if name in ("slot_scope", "names"):
        # A select with an empty list of names differs from one without names.
        has_value = column.list.len() > 0 if name == "slot_scope" else column.is_not_null()
    if not has_value.any():
        return None
    texts: list[str | None] = [None] * len(rows)
    values = column.filter(has_value)
    listed_values = values.map.entries().to_list() if name in _MAPS else values.to_list()
    for place, value in zip(has_value.arg_true().to_list(), listed_values, strict=True):
        texts[place] = _json(_object(value) if name in _MAPS else value)
    return pl.lit(pl.Series(texts, dtype=pl.String))


def _object(entries: list[Any]) -> dict[str, Any]:
    return {entry["key"]: entry["value"] for entry in entries}


def _json(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if item is not None}
    return orjson.dumps(value).decode()


def _write_stream_graphs(topologies: pl.DataFrame, nodes: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    ids = topologies[TOPOLOGY].implode()
    nodes_by_topology = _by_topology(nodes.filter(pl.col(TOPOLOGY).is_in(ids)).sort(TOPOLOGY, "id"))
    edges_by_topology = _by_topology(
        edges.filter(pl.col(TOPOLOGY).is_in(ids)).sort(TOPOLOGY, "source", "out_index")
    )
    lines = []
    for row in topologies.with_columns(pl.col("config").map.entries()).to_dicts():
        graph = _graph(
            orjson.loads(row["stream_graph_settings"]),
            nodes_by_topology.get(row[TOPOLOGY], []),
            edges_by_topology.get(row[TOPOLOGY], []),
        )
        own = {key: row[key] for key in ("name", "parallelism", "max_parallelism") if row[key] is not None}
        config = {"config": options} if (options := _object(row["config"])) else {}
        lines.append(orjson.dumps({**own, **config, "stream_graph": graph}).decode())
    return pl.DataFrame({"name": topologies["name"], "line": lines}, _LINES)


def stream_graph_of_tables(
    job_settings: pl.DataFrame, nodes: pl.DataFrame, edges: pl.DataFrame
) -> dict[str, Any]:
    """Return the only topology's StreamGraph, as planned, as the key `stream_graph` of a topology.

    `sinks` is empty, since the tables do not say which nodes are sinks.
    """
    (settings,) = job_settings.select(*SETTINGS_OF_GRAPHS, _INTERVAL).to_dicts()
    node_rows, edge_rows = nodes.sort("id"), edges.sort("source", "out_index")
    graph = _graph(
        {
            "sources": nodes.filter("among_sources")["id"].to_list(),
            "sinks": [],
            "checkpointing": settings.pop(_INTERVAL) > 0,
            "partitioners_compared": True,
            **settings,
        },
        *(next(iter(_by_topology(rows).values()), []) for rows in (node_rows, edge_rows)),
    )
    aligned = {edge["target"] for edge in graph["edges"] if not edge["unaligned_checkpoints"]}
    for edge in graph["edges"]:
        # StreamGraphGenerator: an edge that refuses unaligned checkpoints does so for all into its target.
        edge["unaligned_checkpoints"] = edge["target"] not in aligned
        forward = edge["partitioner_class"] == PARTITIONER_CLASSES[Partitioner.FORWARD]
        spread = not edge["pointwise"] and edge["partitioner"] != Partitioner.REBALANCE.upper()
        edge["inter_inputs_keys_correlated"] = spread
        edge["intra_input_key_correlated"] = forward or spread
    return graph


_INTERVAL = "checkpointing_interval_milliseconds"


def _by_topology(rows: pl.DataFrame) -> dict[int, list[dict[str, Any]]]:
    maps = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Map)]
    rows_by_topology: dict[int, list[dict[str, Any]]] = {}
    for row in rows.with_columns(pl.col(name).map.entries() for name in maps).to_dicts():
        values = {key: _object(value) if key in maps else value for key, value in row.items()}
        rows_by_topology.setdefault(row[TOPOLOGY], []).append(values)
    return rows_by_topology


def _graph(
    settings: dict[str, Any], nodes: list[dict[str, Any]], edges: list[dict[str, Any]]
) -> dict[str, Any]:
    incoming: dict[int, list[str]] = {node["id"]: [] for node in nodes}
    outgoing: dict[int, list[str]] = {node["id"]: [] for node in nodes}
    for edge in edges:
        outgoing[edge["source"]].append(edge["edge_id"])
    for edge in sorted(edges, key=lambda row: row["in_index"]):
        incoming[edge["target"]].append(edge["edge_id"])
    equal = _equal_partitioners(edges) if settings.get("partitioners_compared") else {}
    return {
        **settings,
        "nodes": [_node(node, incoming[node["id"]], outgoing[node["id"]]) for node in nodes],
        "edges": [_edge(edge, equal.get(edge["edge_id"])) for edge in edges],
    }


def _equal_partitioners(edges: list[dict[str, Any]]) -> dict[str, str]:
    """Map an edge id to the first edge out of the same node with an equal partitioner, if that is another
    edge.

    `edges` are sorted by source and position among its outputs.
    """
    first: dict[tuple[int, str], str] = {}
    for edge in edges:
        first.setdefault((edge["source"], edge["partitioner_key"]), edge["edge_id"])
    firsts = {edge["edge_id"]: first[edge["source"], edge["partitioner_key"]] for edge in edges}
    return {edge: first_edge for edge, first_edge in firsts.items() if edge != first_edge}


def _node(node: dict[str, Any], incoming: list[str], outgoing: list[str]) -> dict[str, Any]:
    known = {
        **node,
        # Planning needs either of the two, and a plan contains only one.
        "output_only_after_end_of_stream": False,
        "in_edges": incoming,
        "out_edges": outgoing,
    }
    optional = {key: node[key] for key in OPTIONAL_OF_NODES if node.get(key) is not None}
    required = {key: known[key] for key in NODE_RULES if key not in OPTIONAL_OF_NODES}
    required["input_requirements"] = {str(key): need for key, need in node["input_requirements"].items()}
    return {**required, **optional}


def _edge(edge: dict[str, Any], equal_partitioner: str | None) -> dict[str, Any]:
    known = {
        "unaligned_checkpoints": edge["supports_unaligned_checkpoints"],
        # Keys that planning does not read.
        "inter_inputs_keys_correlated": True,
        "intra_input_key_correlated": True,
        **edge,
        "equal_partitioner": equal_partitioner,
    }
    required = {key: known[key] for key in EDGE_RULES if key not in OPTIONAL_OF_EDGES}
    return required | {key: known[key] for key in OPTIONAL_OF_EDGES if known[key] is not None}
