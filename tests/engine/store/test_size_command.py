"""`penstock size`, as a user calls it."""

from typing import TextIO

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from typer.testing import CliRunner

from penstock.engine.commands import size
from penstock.engine.commands.main import app
from penstock.engine.output import people
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.write_plan import write_plan
from penstock.engine.views import size_cluster as tell_size
from tests.passes.frames import make_frame

LONG = "e" + "x" * 150
GROUPS = {"a": [4, 2], "b [bold]": [30], "c": [5], "d": [1]}
CLUSTER = ("--slots-per-task-manager", "4", "--available", "4")


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Version 1 without slots, version 2 with them; r is refused, e… has no vertices."""
    path = str(tmp_path_factory.mktemp("size") / "store")
    names = [*GROUPS, LONG, "r"]
    ids = {
        row["name"]: row["id"]
        for row in spark.createDataFrame([(name,) for name in names], "name string")
        .select("name", F.xxhash64("name").alias("id"))
        .collect()
    }
    rejected = {"topology_id": ids["r"], "name": "r", "error_stage": "job_graph", "error": "E"}
    groups = [
        {"topology_id": ids[name], "slot_sharing_group": group, "slots": slots}
        | {"tasks": slots * 2, "vertices": 2, "largest_vertex": 7 + group}
        for name, of_groups in GROUPS.items()
        for group, slots in enumerate(of_groups)
    ]
    tables = {
        "topologies": make_frame(
            spark, "topologies", [{"topology_id": ids[name], "name": name} for name in names if name != "r"]
        ),
        "rejected": make_frame(spark, "rejected", [rejected], topology_id=None),
    }
    write_plan(SparkTables(spark, path), tables, planner_version="1", options={"until": "job_graph"})
    tables["required_slots"] = make_frame(spark, "required_slots", groups)
    tables["job_vertices"] = make_frame(
        spark, "job_vertices", [{"topology_id": ids["a"], "vertex": 7, "name": "Source: s -> map"}]
    )
    write_plan(SparkTables(spark, path), tables, planner_version="1", options={"until": "slots"})
    return path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["size", *arguments])
    return result.exit_code, result.output


def test_totals_then_what_is_not_placed_then_the_largest(store):
    assert run(store, *CLUSTER) == (
        0,
        f"{store} version 2: TaskManagers of 4 slots and 1,728 MiB, 4 available\n"
        "\n"
        "\tsession cluster\tone cluster per job\n"
        "jobs\t5\t5\n"
        "jobs placed\t4\t3\n"
        "slots of all jobs\t42\t42\n"
        "slots in use\t12\t11\n"
        "slots free\t0\t5\n"
        "utilisation of slots\t100.0%\t68.8%\n"
        "TaskManagers wanted\t10\t13\n"
        "TaskManagers pending\t3\t4\n"
        "TaskManagers missing\t5\t7\n"
        "TaskManagers to hold all jobs\t11\t13\n"
        "memory of pending TaskManagers\t5.1 GiB\t6.8 GiB\n"
        "\n"
        "jobs not placed\tslots\tsession wanted\tsession missing\tjob wanted\tjob missing\n"
        "b [bold]\t30\t7\t5\t8\t6\n"
        "d\t1\t0\t0\t1\t1\n"
        "\n"
        "largest jobs\tslots\tlargest group\tits slots\tsession wanted\tjob wanted\n"
        "b [bold]\t30\t0\t30\t7\t8\n"
        "a\t6\t0\t4\t2\t2\n"
        "c\t5\t0\t5\t1\t2\n"
        "d\t1\t0\t1\t0\t1\n"
        f"{LONG}\t0\t-\t0\t0\t0\n",
    )


def test_without_a_limit_every_job_is_placed_on_task_managers_of_one_slot(store):
    code, output = run(store, "--task-manager-memory", "1g")
    assert (code, "TaskManagers of 1 slot and 1,024 MiB, no limit\n" in output) == (0, True)
    assert "jobs placed\t5\t5\n" in output
    assert "TaskManagers pending\t42\t42\n" in output
    assert "memory of pending TaskManagers\t42.0 GiB\t42.0 GiB\n" in output
    assert "not placed" not in output


def test_a_cluster_without_task_managers_has_no_utilisation(store):
    code, output = run(store, "--available", "0")
    assert (code, "jobs placed\t1\t1\n" in output, "utilisation of slots\t-\t-\n" in output) == (
        0,
        True,
        True,
    )


def test_lists_of_jobs_are_cut(store, monkeypatch):
    monkeypatch.setattr(tell_size, "MOST", 1)
    _, output = run(store, *CLUSTER)
    assert "b [bold]\t30\t7\t5\t8\t6\n… and 1 more\n" in output
    assert "\na\t" not in output


def test_a_terminal_of_100_columns_shows_every_number(store, monkeypatch):
    def terminal(stream: TextIO) -> Console:
        return Console(file=stream, force_terminal=True, color_system=None, width=100)

    monkeypatch.setattr(people, "_console", terminal)
    code, output = run(store, *CLUSTER)
    tables = output[output.index("session cluster") :]
    assert (code, max(map(len, tables.splitlines())) <= 100) == (0, True)
    cells = [[cell.strip() for cell in line.split("│")] for line in tables.splitlines()]
    assert ["b [bold]", "30", "7", "5", "8", "6"] in cells
    for line in (
        "largest jobs    a",
        "slots           6",
        "its slots       4",
    ):  # in blocks: e's name is too long
        assert line in tables
    assert tables.count("x") == LONG.count("x")


def test_one_job_at_its_place_among_all(store):
    assert run(store, *CLUSTER, "--topology", "c")[1].endswith(
        "c: 5 slots\n"
        "\n"
        "slot sharing group\tslots\ttasks\tvertices\tlargest vertex\n"
        "0\t5\t10\t2\t7\n"
        "\n"
        "\tsession cluster\tone cluster per job\n"
        "placed\tyes\tyes\n"
        "TaskManagers wanted\t1\t2\n"
        "TaskManagers pending\t1\t2\n"
        "TaskManagers missing\t0\t0\n"
        "memory of pending TaskManagers\t1.7 GiB\t3.4 GiB\n"
    )


def test_a_vertex_is_named_where_the_store_knows_its_name(store):
    assert "0\t4\t8\t2\tSource: s -> map\n1\t2\t4\t2\t8\n" in run(store, "--topology", "a")[1]


def test_a_refused_job_and_one_that_is_not_there(store):
    code, output = run(store, "--topology", "r")
    assert (code, "r is refused and needs no slots" in output) == (0, True)
    code, output = run(store, "--topology", "bb")
    assert (code, "has no topology 'bb'" in output) == (4, True)


def test_a_store_without_slots_says_how_to_get_them(store):
    code, output = run(store, "--version", "1")
    assert (code, "version 1 has no slots" in output, "--until slots" in output) == (4, True, True)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--slots-per-task-manager", "0", "slots per TaskManager must be at least 1, got 0"),
        ("--available", "-1", "available TaskManagers must be at least 0, got -1"),
        ("--task-manager-memory", "4q", "'4q': has the unknown memory unit 'q'"),
        ("--task-manager-memory", "0", "must be above 0, got '0'"),
        ("--slots-per-task-manager", "many", "Invalid value for '--slots-per-task-manager'"),
    ],
)
def test_usage_errors_come_before_the_store_is_opened(option, value, said, monkeypatch, tmp_path):
    monkeypatch.delattr(size, "opened_plan")
    (tmp_path / "plan_versions").mkdir()
    code, output = run(str(tmp_path), option, value)
    assert (code, said in output) == (2, True)
