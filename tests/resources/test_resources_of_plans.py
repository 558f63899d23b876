"""Buffers and managed memory of whole plans, against Flink's own graphs of the same topologies."""

from collections import defaultdict

import pytest
from pyspark.sql import functions as F

from engine.planning.choose_planner import Planner
from engine.planning.plan_topologies import plan
from plans.execution_graph.joins.create_execution_job_vertices import create_execution_job_vertices
from plans.resources.joins.count_network_buffers import count_network_buffers
from plans.resources.joins.size_managed_memory import size_managed_memory
from plans.resources.joins.task_network_buffers import slot_network_buffers, task_network_buffers
from plans.resources.task_manager import TaskManager
from plans.vocabulary import BufferSide, Layer
from tests.resources.flink_resources import rows


@pytest.fixture(scope="module")
def found(spark):
    """Rows by the name of their topology, and vertices by the id that Flink gives them."""
    planned = plan(
        [row["topology"] for row in rows("plan")], until=Layer.JOB_GRAPH, spark=spark, planner=Planner.JOINS
    )
    try:
        tables = planned.tables
        data_sets = tables["intermediate_data_sets"].select(
            "topology_id",
            F.col("vertex").alias("source_vertex"),
            "data_set_id",
            "output_index",
            "result_partition_type",
        )
        edges = tables["job_edges"].join(data_sets, ["topology_id", "source_vertex", "data_set_id"])
        vertices = tables["job_vertices"]
        buffers = count_network_buffers(edges, create_execution_job_vertices(vertices)).localCheckpoint()
        tasks = task_network_buffers(buffers, vertices).localCheckpoint()
        managed = size_managed_memory(
            tables["chained_operators"], tables["job_settings"], task_manager=TaskManager("1728m")
        )
        names = tables["topologies"].select("topology_id", "name")
        named = vertices.select("topology_id", "vertex", "vertex_id").join(names, "topology_id")
        keys = ["topology_id", "vertex"]
        return {
            "buffers": buffers.join(named, keys).collect(),
            "tasks": tasks.join(named, keys).collect(),
            "slots": slot_network_buffers(tasks).join(names, "topology_id").collect(),
            "managed": managed.join(names, "topology_id").collect(),
        }
    finally:
        planned.release()


def test_channels_and_announced_bytes_of_every_task_are_flinks(found):
    ends: dict[tuple[str, str], dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in found["buffers"]:
        ends[row["name"], row["vertex_id"]][row["side"]][row["index"]] = row["channels"]
    announced = {(row["name"], row["vertex_id"]): row["announced_bytes"] for row in found["tasks"]}
    expected = {
        (row["topology"]["name"], vertex): task
        for row in rows("plan")
        for vertex, task in row["tasks"].items()
    }
    assert announced.keys() == expected.keys()
    for key, task in expected.items():
        gates, partitions = (dict(enumerate(task[side])) for side in ("gates", "result_partitions"))
        assert ends[key][BufferSide.GATE] == gates, key
        assert ends[key][BufferSide.RESULT_PARTITION] == partitions, key
        assert announced[key] == task["announced_bytes"], key
    assert None in announced.values()


def test_a_slot_announces_what_its_tasks_do(found):
    group = {(row["name"], row["vertex_id"]): row["slot_sharing_group"] for row in found["tasks"]}
    sums = defaultdict(list)
    for row in rows("plan"):
        for vertex, task in row["tasks"].items():
            name = row["topology"]["name"]
            sums[name, group[name, vertex]].append(task["announced_bytes"])
    slots = {(row["name"], row["slot_sharing_group"]): row["announced_bytes"] for row in found["slots"]}
    assert slots == {key: None if None in tasks else sum(tasks) for key, tasks in sums.items()}


def test_managed_memory_of_every_operator_is_flinks(found):
    managed = {
        (row["name"], row["node"], row["use_case"]): (row["fraction"], row["slot_fraction"], row["bytes"])
        for row in found["managed"]
    }
    expected = {
        (row["topology"]["name"], m["node"], m["use_case"]): (
            m["fraction"],
            m["slot_fraction"],
            m["bytes"] or 0,
        )
        for row in rows("plan")
        for m in row["managed"]
    }
    assert managed == expected
