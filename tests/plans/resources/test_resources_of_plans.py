"""Buffers and managed memory of whole plans, against Flink's own graphs of the same topologies."""

from collections import defaultdict

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.resources.memory_and_buffers import slot_network_buffers, task_network_buffers
from penstock.plans.vocabulary import BufferSide
from tests.plans.resources.flink_resources import rows


@pytest.fixture(scope="module")
def found():
    """Rows by the name of their topology, and vertices by the id that Flink gives them.

    tests/plans/planners/test_plan_columnar.py compares these tables with those of Spark's passes.
    """
    planned = plan_in_process([row["topology"] for row in rows("plan")])
    tables = {name: from_arrow(table) for name, table in planned.tables.items()}
    names = tables["topologies"].select("topology_id", "name")
    vertices = tables["job_vertices"].drop("name")
    keys = ["topology_id", "vertex"]
    named = vertices.select(*keys, "vertex_id").join(names, on="topology_id")
    tasks = task_network_buffers(tables["network_buffers"], vertices)
    return {
        "buffers": tables["network_buffers"].join(named, on=keys).to_dicts(),
        "tasks": tasks.join(named, on=keys).to_dicts(),
        "slots": slot_network_buffers(tasks).join(names, on="topology_id").to_dicts(),
        "managed": tables["managed_memory"].join(names, on="topology_id").to_dicts(),
    }


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
