"""Memory is foreseen; what runs out of it after all is one message."""

import gzip
import os
import resource
import sys

import orjson
import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.machine import operating_system
from penstock.engine.machine.available_memory import Available, available_memory, memory_bytes
from penstock.engine.planning import memory_estimate as foresee
from penstock.engine.planning import planners as choosing
from penstock.engine.planning.memory_estimate import (
    FleetSize,
    bytes_of_tasks,
    estimate_size,
    require_memory_for_tasks,
)
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import ChosenPlanner, Planner, choose_planner
from penstock.engine.store.store_tables import VersionNumber
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.execution_graph import job_graph_arrays as counting
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.layers import PlanOptions
from penstock.plans.topology.find_topology_files import examine_paths
from penstock.plans.vocabulary import Layer
from tests.plans.topology.builders import simple, transformation

MEBIBYTE = 2**20


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Writes what /proc and /sys/fs/cgroup say; 8 GiB are free."""
    monkeypatch.delenv(operating_system.WITHOUT_LINUX, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(operating_system, "PROC", tmp_path / "proc")
    monkeypatch.setattr(operating_system, "CGROUPS", tmp_path / "cgroup")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)

    def write(files: dict[str, object]) -> None:
        for name, text in {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8388608 kB", **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")

    return write


def test_free_memory_of_the_machine_counts(machine):
    machine({"proc/self/cgroup": "4:memory:/\n0::/", "cgroup/memory/memory.limit_in_bytes": 2**63 - 4096,
             "cgroup/memory/memory.usage_in_bytes": 5})  # fmt: skip
    assert available_memory() == Available(2**33, "the free memory of this machine")


@pytest.mark.parametrize(
    ("line", "folder", "limit", "usage", "cache"),
    [
        ("4:memory:/a/b", "cgroup/memory", "limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
        ("0::/a/b", "cgroup", "max", "current", "inactive_file"),
    ],
)
@pytest.mark.parametrize("at", ["", "/a", "/a/b"])
def test_a_cgroup_above_counts_too(machine, line, folder, limit, usage, cache, at):
    """Its caches can be dropped; a container sees its own at the root."""
    machine({
        "proc/self/cgroup": f"5:cpu:/\n{line}",
        f"{folder}{at}/memory.{limit}": 2**30,
        f"{folder}{at}/memory.{usage}": 2**29,
        f"{folder}{at}/memory.stat": f"cache 1\n{cache} {2**20}",
    })  # fmt: skip
    found = available_memory()
    assert found.size_bytes == 2**29 + 2**20
    assert "cgroup (1.0 GiB)" in found.limited_by
    assert memory_bytes() == 2**30


@pytest.mark.parametrize(("kind", "option"), [("RLIMIT_AS", "ulimit -v"), ("RLIMIT_DATA", "ulimit -d")])
def test_resource_limits_count(machine, monkeypatch, kind, option):
    limits = {getattr(resource, kind): 2**33 - 1}
    monkeypatch.setattr(resource, "getrlimit", lambda asked: (limits.get(asked, resource.RLIM_INFINITY),) * 2)
    machine({f"proc/{os.getpid()}/status": "VmRSS:\t1024 kB"})
    found = available_memory()
    assert 2**30 < found.size_bytes < 2**33 - 2**30
    assert option in found.limited_by


def leaves(monkeypatch, size_bytes: int) -> None:
    monkeypatch.setattr(foresee, "available_memory", lambda: Available(size_bytes, "the free memory"))


def test_what_is_asked_for_and_does_not_fit_is_an_error_before_anything_is_read(tmp_path, monkeypatch):
    file = tmp_path / "t.jsonl"
    file.write_bytes(orjson.dumps(simple("t")))
    leaves(monkeypatch, 100 * MEBIBYTE)
    for planner in (Planner.COLUMNAR, Planner.AUTO):
        with pytest.raises(NotEnoughMemoryError) as raised:
            choose_planner(planner, examine_paths([str(file)]))
        assert raised.value.exit_code == 9
        for said in ("takes about 0.16 GiB", "leaves 0.10 GiB", "the free memory", "--until job_graph",
                     "--planner blocks", "--master", "smaller parts"):  # fmt: skip
            assert said in str(raised.value)


def test_auto_takes_spark_where_that_fits(tmp_path, monkeypatch):
    file = tmp_path / "t.jsonl"
    file.write_bytes(orjson.dumps(simple("t")))
    leaves(monkeypatch, 100 * MEBIBYTE)
    monkeypatch.setattr(choosing, "spark_fits", lambda: True)
    chosen = choose_planner(Planner.AUTO, examine_paths([str(file)]))
    assert (chosen.on_spark, "leaves 0.10 GiB" in chosen.why) == (True, True)
    with pytest.raises(NotEnoughMemoryError):
        choose_planner(Planner.COLUMNAR, examine_paths([str(file)]))


def test_a_giant_needs_no_more_than_its_estimate(monkeypatch):
    """A fleet does, whose tasks are not in the estimate."""
    monkeypatch.setattr(choosing, "spark_fits", lambda: True)
    for size, on_spark in ((FleetSize(37_500_000, 1), False), (FleetSize(37_500_000, 2), True)):
        leaves(monkeypatch, int(size.needed_bytes_in_parts * 1.05))
        monkeypatch.setattr(choosing, "estimate_size", lambda inputs, size=size: size)
        assert choose_planner(Planner.AUTO, examine_paths(["t"])).on_spark is on_spark


@pytest.mark.parametrize(
    ("size", "least_gigabytes", "most_gigabytes"),
    [
        (FleetSize(12_500_000, 1), 7, 8),  # a layered topology of 10 million operators: 7.5 GB were measured
        (FleetSize(37_494_172, 1), 19.9, 22),  # one of 30 million: 20 GB
        (FleetSize(1_250_000, 1), 1.2, 1.6),  # one of a million: 1.3 GB
        (FleetSize(1_300_000, 92_000), 2.4, 3.5),  # random topologies of a million: 2.7 to 3.1 GB
        (FleetSize(475_000, 25_000), 0.8, 1.2),  # chains of 250,000: 0.95 GB and 0.1 GB of tasks
    ],
)
def test_estimates_are_near_what_was_measured(size, least_gigabytes, most_gigabytes):
    assert least_gigabytes < size.needed_bytes / 1e9 < most_gigabytes


def test_tasks_are_near_what_was_measured():
    """A chain of 1,000 vertices of 32,768 tasks: 4.25 GiB."""
    tasks = 32_768_000
    assert 4 < bytes_of_tasks(TaskRows(tasks, tasks, tasks)) / 2**30 < 5


def test_sizes_are_estimated_from_samples(tmp_path):
    lines = [orjson.dumps(simple(f"t{number}")) + b"\n" for number in range(3_000)]
    rows = sum(line.count(b'"kind"') for line in lines)
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    for name in ("a.jsonl", "b.jsonl.gz"):
        found = estimate_size(examine_paths([str(tmp_path / name)]))
        assert found.transformations == pytest.approx(rows, rel=0.3)
        assert found.topologies == pytest.approx(3_000, rel=0.3)
    (tmp_path / "giant.jsonl").write_bytes(lines[0].rstrip()[:-2] + rows * b',{"kind":"sink"}' + b"]}")
    found = estimate_size(examine_paths([str(tmp_path / "giant.jsonl")]))
    assert found.topologies == 1
    assert found.transformations == pytest.approx(rows, rel=0.3)
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(2**24)))
    assert estimate_size(examine_paths([str(tmp_path / "zeros.gz")])).transformations == 0
    (tmp_path / "blank.gz").write_bytes(gzip.compress(b"\n" * 2**24))
    assert estimate_size(examine_paths([str(tmp_path / "blank.gz")])).topologies == 1
    assert estimate_size(examine_paths([str(tmp_path / "nothing")])) == FleetSize(0, 0)


def test_tasks_that_do_not_fit_are_an_error_before_they_are_made(monkeypatch):
    """All parts of a fleet together; layers without tasks can be planned."""
    wide = {**simple("wide"), "parallelism": 32_768}
    leaves(monkeypatch, 200 * MEBIBYTE)
    planned = plan_in_process([wide])
    tasks = len(planned.tables["execution_vertices"])
    assert tasks >= 32_768
    leaves(monkeypatch, 170 * MEBIBYTE)
    fleet = [{**wide, "name": str(number)} for number in range(150)]
    with pytest.raises(NotEnoughMemoryError, match=f"{150 * tasks:,} tasks"):
        plan_in_process(fleet)
    assert plan_in_process(fleet, PlanOptions(Layer.JOB_GRAPH)).planned == 150

    check = require_memory_for_tasks()
    part = TaskRows(500_000, 500_000, 500_000)
    check(part)
    check(part)
    with pytest.raises(NotEnoughMemoryError, match="1,500,000 tasks"):
        check(part)


@pytest.mark.parametrize(("asked", "spark_fits"), [("auto", True), ("auto", False), ("columnar", True)])
def test_tasks_that_do_not_fit_are_for_spark_if_that_is_free_to_choose(
    tmp_path, monkeypatch, asked, spark_fits
):
    file = tmp_path / "wide.jsonl"
    rows = [
        transformation(1, "source"),
        *(transformation(i, inputs=[i - 1], chaining="NEVER") for i in range(2, 60)),
    ]
    file.write_bytes(orjson.dumps({"name": "wide", "parallelism": 32_768, "transformations": rows}))
    leaves(monkeypatch, 240 * MEBIBYTE)
    monkeypatch.setattr(choosing, "spark_fits", lambda: spark_fits)
    planned = []

    def on_spark(spark: object, chosen: ChosenPlanner, *_: object) -> PlanResult:
        planned.append(chosen)
        return PlanResult({}, 1, 1, 0, {}, "blocks", chosen.why, VersionNumber(1))

    monkeypatch.setattr("penstock.engine.commands.plan._plan_on_spark", on_spark)
    monkeypatch.setattr("penstock.engine.commands.plan.print_imports", lambda *_: None)
    ran = CliRunner().invoke(app, ["plan", str(file), "--out", str(tmp_path / "store"), "--planner", asked])
    if asked == "auto" and spark_fits:
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert "planner blocks: planning 1,933,312 tasks" in ran.stdout
    else:
        assert (ran.exit_code, ran.stdout, planned) == (9, "", [])
        assert ran.stderr.startswith("penstock: planning 1,933,312 tasks")
        assert not (tmp_path / "store").exists()


def test_tables_that_polars_cannot_number_are_an_error_before_they_are_made(monkeypatch):
    monkeypatch.setattr(counting, "MOST_ROWS", 10_000)
    with pytest.raises(NotEnoughMemoryError, match="at most 10,000 rows"):
        plan_in_process([{**simple("wide"), "parallelism": 32_768}])


def test_reading_ends_before_memory_does(tmp_path, monkeypatch):
    file = tmp_path / "t.jsonl"
    file.write_bytes(orjson.dumps(simple("t")))
    leaves(monkeypatch, 10 * MEBIBYTE)
    with pytest.raises(NotEnoughMemoryError, match="the input does not fit"):
        plan_in_process(str(file))


def test_what_an_export_holds_is_foreseen(tmp_path, monkeypatch, capsys):
    file, store = tmp_path / "t.jsonl", str(tmp_path / "store")
    file.write_bytes(orjson.dumps(simple("t")))
    assert CliRunner().invoke(app, ["plan", str(file), "--out", store]).exit_code == 0
    leaves(monkeypatch, 1_000)
    for arguments, exit_code in (([], 9), (["--topology", "t"], 0)):
        with pytest.raises(SystemExit) as ended:
            app(["export", store, "--to", str(tmp_path / "out"), *arguments])
        assert int(ended.value.code or 0) == exit_code
    assert "rows at a time takes about 0.00 GiB of memory" in capsys.readouterr().err
