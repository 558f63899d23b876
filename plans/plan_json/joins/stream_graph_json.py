"""The `stream_graph` of plan JSON from the StreamGraph's tables."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.plan_json.joins.json_text import KEEP_NULLS, json_lists
from plans.plan_json.stream_graph_json import EDGE_KEYS, NODE_KEYS


def stream_graph_json(tables: Mapping[str, DataFrame]) -> DataFrame:
    """(topology_id, json): nodes by id and edges by source and output order.

    Stream graphs without edges have an empty list; keys whose value is null are written.
    """
    topology = ["topology_id"]
    nodes = json_lists(tables["stream_nodes"], topology, ["id"], {k: F.col(k) for k in NODE_KEYS}, KEEP_NULLS)
    edges = json_lists(
        tables["stream_edges"],
        topology,
        ["source", "out_index"],
        {k: F.col(k) for k in EDGE_KEYS},
        KEEP_NULLS,
    )
    joined = nodes.alias("n").join(edges.alias("e"), F.col("n.topology_id") == F.col("e.topology_id"), "left")
    text = F.concat(
        F.lit('{"nodes":'), F.col("n.json"), F.lit(',"edges":'), F.coalesce("e.json", F.lit("[]")), F.lit("}")
    )
    return joined.select("n.topology_id", text.alias("json"))
