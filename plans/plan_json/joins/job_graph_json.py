"""The `job_graph` of plan JSON from the JobGraph's tables."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.plan_json.joins.json_text import LEAVE_NULLS_OUT, joined_lists, json_lists, without_brace

_VERTEX = ["topology_id", "vertex"]


def job_graph_json(tables: Mapping[str, DataFrame]) -> DataFrame:
    """(topology_id, json): vertices in creation order with operators, data sets and inputs; the order.

    From job_vertices, chained_operators, job_edges and intermediate_data_sets. Operators stand by chain index
    (then node), data sets by output_index, inputs by input_index; a vertex without co-location group has no
    such key.
    """
    vertices = tables["job_vertices"]
    parts = {
        "operator_ids": _operator_ids(tables["chained_operators"]),
        "operators": _operators(tables["chained_operators"]),
        "outputs": _outputs(tables["intermediate_data_sets"]),
        "inputs": _inputs(tables["job_edges"], vertices),
    }
    joined = vertices.alias("v")
    for name, part in parts.items():
        same_vertex = [F.col(f"v.{k}") == F.col(f"{name}.{k}") for k in _VERTEX]
        joined = joined.join(part.alias(name), same_vertex, "left")
    own = F.struct(
        F.col("v.vertex_id").alias("id"),
        F.col("v.name"),
        F.col("v.parallelism"),
        F.col("v.max_parallelism"),
        F.col("v.invokable"),
        F.col("v.slot_sharing_group"),
        F.col("v.co_location_group"),
    )
    lists = [
        column
        for name in parts
        for column in (F.lit(f',"{name}":'), F.coalesce(F.col(f"{name}.json"), F.lit("[]")))
    ]
    text = F.concat(without_brace(F.to_json(own, LEAVE_NULLS_OUT)), *lists, F.lit("}"))
    by_vertex = joined.select("v.topology_id", "v.creation_order", text.alias("json"))
    listed = joined_lists(by_vertex, ["topology_id"], ["creation_order"])
    ordered = vertices.groupBy("topology_id").agg(
        F.sort_array(F.collect_list(F.struct("topological_order", "vertex_id"))).alias("ordered")
    )
    both = listed.alias("l").join(ordered.alias("o"), F.col("l.topology_id") == F.col("o.topology_id"))
    graph = F.concat(
        F.lit('{"vertices":'),
        F.col("l.json"),
        F.lit(',"topological_order":'),
        F.to_json(F.col("o.ordered.vertex_id")),
        F.lit("}"),
    )
    return both.select("l.topology_id", graph.alias("json"))


def _members(*names: str, **renamed: str) -> dict[str, Column]:
    return {name: F.col(name) for name in names} | {key: F.col(column) for key, column in renamed.items()}


def _operator_ids(operators: DataFrame) -> DataFrame:
    """[generated, user-defined if any] of every operator that has a place in the vertex's operator ids."""
    pair = F.to_json(F.array_compact(F.array("operator_id", "user_defined_operator_id")))
    placed = operators.where(F.col("operator_order").isNotNull())
    return joined_lists(
        placed.select(*_VERTEX, "operator_order", pair.alias("json")), _VERTEX, ["operator_order"]
    )


def _operators(operators: DataFrame) -> DataFrame:
    members = _members("node", "operator_id", "name", "chain_index", "managed_memory_fraction")
    return json_lists(operators, _VERTEX, ["chain_index", "node"], members, LEAVE_NULLS_OUT)


def _outputs(data_sets: DataFrame) -> DataFrame:
    members = {
        "id": F.col("data_set_id"),
        "type": F.col("result_partition_type"),
        **_members("distribution", "broadcast", "consumers"),
    }
    return json_lists(data_sets, _VERTEX, ["output_index"], members, LEAVE_NULLS_OUT)


def _inputs(edges: DataFrame, vertices: DataFrame) -> DataFrame:
    same_source = [
        F.col("e.topology_id") == F.col("s.topology_id"),
        F.col("e.source_vertex") == F.col("s.vertex"),
    ]
    located = (
        edges.alias("e")
        .join(vertices.alias("s"), same_source)
        .select("e.*", F.col("s.vertex_id").alias("source"), F.col("e.target_vertex").alias("vertex"))
    )
    members = {
        "source": F.col("source"),
        "data_set": F.col("data_set_id"),
        **_members("distribution", "ship_strategy", "type_number", "forward", "broadcast"),
    }
    return json_lists(located, _VERTEX, ["input_index"], members, LEAVE_NULLS_OUT)
