"""`penstock plan` as a user calls it, in the running session; once as a process of its own."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from tests.planned_lines import PlanJson, differs

GOLDEN = Path(__file__).parent / "golden"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class Ran(NamedTuple):
    code: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Ran:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return Ran(result.exit_code, result.stdout, result.stderr)


def _with_sink(name: str, parallelism: int) -> str:
    """Flink refuses a forward edge between tasks of different parallelism."""
    transformations: list[dict[str, object]] = [
        {"id": 1, "kind": "source", "name": "s"},
        {"id": 2, "kind": "partition", "partitioner": "forward", "inputs": [1]},
        {"id": 3, "kind": "sink", "name": "k", "inputs": [2], "parallelism": parallelism},
    ]
    return json.dumps({"name": name, "transformations": transformations})


REFUSED = '{"name": "r"}'
REFUSED_BY_FLINK, PLANNED = _with_sink("u", parallelism=7), _with_sink("planned", parallelism=1)


@pytest.fixture(scope="module")
def golden() -> list[PlanJson]:
    """Every planned shape, and random topologies up to the first two that are refused."""

    def lines(name: str) -> list[PlanJson]:
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    random = lines("random")
    refused = [line for line in random if line["expected"].get("error_stage") == "stream_graph"]
    return [*lines("shapes"), *(line for line in random[:40] if line not in refused), *refused[:2]]


@pytest.fixture(scope="module")
def inputs(golden: list[PlanJson], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The topologies of `golden` in two files, one of them compressed."""
    folder = tmp_path_factory.mktemp("inputs")
    lines = [json.dumps(line["topology"]).encode() + b"\n" for line in golden]
    plain, packed = folder / "plain.jsonl", folder / "packed.jsonl.gz"
    plain.write_bytes(b"".join(lines[:20]))
    packed.write_bytes(gzip.compress(b"".join(lines[20:])))
    return plain, packed


@pytest.fixture(scope="module")
def store(spark, inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    path = tmp_path_factory.mktemp("plans") / "store"
    return path, run("plan", *inputs, "--out", path)


def test_two_inputs_become_one_version(golden, store):
    path, ran = store
    planned = len(golden) - 2
    line = f"{path}: version 1 holds {planned} planned and 2 rejected of {len(golden)} topologies"
    assert (ran.code, ran.stdout.split(" (planner ")[0]) == (0, line)
    assert ran.stdout.endswith("fit in memory)\n")
    assert ran.stdout.count("\n") == 1


def test_piped_output_is_one_line_the_first_reason_and_a_hint(store):
    path, ran = store
    said = " ".join(ran.stderr.split())
    assert said.startswith(
        "the first rejected is t-000092: UnsupportedOperationException: Forward partitioning"
    )
    assert said.endswith(f" penstock rejected {path} lists the reasons")
    assert "\x1b" not in ran.stdout + ran.stderr


def test_what_is_exported_is_what_flink_plans(golden, store, tmp_path):
    target = tmp_path / "plans.jsonl"
    assert run("export", store[0], "--to", target) == (0, "", "")
    plans = {plan["name"]: plan for plan in map(json.loads, target.read_text("utf-8").split("\n")[:-1])}
    assert len(plans) == len(golden)
    expected = [line["expected"] for line in golden]
    assert [plan["name"] for plan in expected if differs(plans[plan["name"]], plan)] == []


def _with_most_edges(golden: list[PlanJson]) -> PlanJson:
    def edges(plan):
        return sum(len(v["inputs"]) * v["parallelism"] for v in plan["execution_graph"]["vertices"])

    plans: list[PlanJson] = [line["expected"] for line in golden if "error" not in line["expected"]]
    return max(plans, key=edges)


def _expanded(plan: PlanJson) -> list[tuple[object, ...]]:
    """Every execution edge of a golden plan, in the order in which `penstock edges` writes them."""
    return [
        (gate["data_set"], partition, vertex["id"], subtask, position, *subpartitions)
        for vertex in plan["execution_graph"]["vertices"]
        for position, gate in enumerate(vertex["inputs"])
        for subtask, (partitions, [subpartitions]) in enumerate(
            zip(gate["partitions_by_subtask"], gate["subpartitions_by_subtask"], strict=True)
        )
        for first, last in partitions
        for partition in range(first, last + 1)
    ]


def test_edges_are_those_of_flink_one_by_one(golden, store):
    plan = _with_most_edges(golden)
    ran = run("edges", store[0], "--topology", plan["name"])
    keys = ("data_set", "source_subtask", "target", "target_subtask", "input", "first_subpartition")
    found = [
        tuple(row[k] for k in (*keys, "last_subpartition"))
        for row in map(json.loads, ran.stdout.splitlines())
    ]
    assert (ran.code, found) == (0, _expanded(plan))
    assert len(found) > 100

    data_set = found[0][0]
    chosen = run("edges", store[0], "--topology", plan["name"], "--job-edge", data_set)
    assert len(chosen.stdout.splitlines()) == sum(edge[0] == data_set for edge in found)


def test_edges_of_what_is_not_there_are_an_error(golden, store):
    name = _with_most_edges(golden)["name"]
    ran = run("edges", store[0], "--topology", name, "--job-edge", "abc")
    assert (ran.code, ran.stdout) == (4, "")
    assert "has no job edge 'abc'" in ran.stderr


def test_show_says_what_the_plans_need(golden, store):
    plans = [line["expected"] for line in golden if "error" not in line["expected"]]
    shown = run("show", store[0]).stdout
    tasks = sum(v["parallelism"] for plan in plans for v in plan["execution_graph"]["vertices"])
    slots = sum(len(plan["slots"]) for plan in plans)
    assert f"\ntasks\t{tasks:,}\n" in shown
    assert f"\nslots\t{slots:,}\n" in shown
    one = plans[0]
    assert f"\n{len(one['slots']):,} slots in {len(one['slots']):,} TaskManagers of 1 slot" in (
        run("show", store[0], "--topology", one["name"]).stdout
    )


def test_size_counts_the_slots_of_all_jobs(golden, store):
    slots = sum(len(line["expected"]["slots"]) for line in golden if "error" not in line["expected"])
    ran = run("size", store[0], "--slots-per-task-manager", 4, "--task-manager-memory", "4g")
    assert ran.code == 0
    assert f"slots of all jobs\t{slots:,}\t{slots:,}\n" in ran.stdout


@pytest.mark.parametrize("planner", ["auto", "columnar"])
def test_an_unchanged_fleet_makes_no_new_version(inputs, store, planner):
    path, first = store
    again = run("plan", *inputs, "--out", path, "--planner", planner)
    assert (again.code, again.stdout.split(" (planner ")[0]) == (0, first.stdout.split(" (planner ")[0])


def test_spark_writes_what_the_columnar_planner_reads(spark, inputs, tmp_path):
    out, exported = tmp_path / "joins", []
    for planner, name in (("joins", "blocks"), ("columnar", "process")):
        upto = ("--until", "stream_graph", "--planner", planner)
        ran = run("plan", inputs[0], "--out", tmp_path / planner, *upto)
        assert (ran.code, f"(planner {name}: as asked)" in ran.stdout) == (0, True)
        exported.append(run("export", tmp_path / planner).stdout)
    assert exported[0] == exported[1] != ""
    again = run("plan", inputs[0], "--out", out, *upto)
    assert "version 1 holds" in again.stdout
    assert again.stdout.endswith("; unchanged, nothing was written\n")


def test_until_stops_behind_the_stream_graph(inputs, store, tmp_path):
    """Other options, so it is another version; export has what there is."""
    path, target = store[0], tmp_path / "plans.jsonl"
    ran = run("plan", inputs[0], "--out", path, "--until", "stream_graph")
    assert (ran.code, "version 2 holds 20 planned and 0 rejected" in ran.stdout) == (0, True)
    assert run("export", path, "--version", 2, "--to", target).code == 0
    keys = {frozenset(json.loads(line)) for line in target.read_text("utf-8").split("\n")[:-1]}
    assert keys == {frozenset({"name", "stream_graph"})}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere.jsonl",), 3, "nowhere.jsonl does not exist"),
        (("{broken}",), 3, "it is not a complete gzip file"),
        (("{plain}", "--conf", "spark.sql.shuffle.partitions"), 2, "must be KEY=VALUE"),
        (("{plain}", "--conf", "=4"), 2, "must be KEY=VALUE"),
        (("{plain}", "--conf", "spark.driver.memory=3g"), 2, "it cannot be changed any more"),
        (("{plain}", "--planner", "flink", "--master", "local[1]"), 2, "settings for Spark were given"),
        (("s3://bucket/plans.jsonl", "--planner", "flink"), 2, "is not a local path"),
        (("{plain}", "--until", "somewhere"), 2, "stream_graph"),
        (("{plain}", "--slots-per-task-manager", "0"), 2, "must be 1 to"),
        (("{plain}", "--task-manager-memory", "100m"), 2, "taskmanager.memory.process.size"),
        (("{plain}", "--task-manager-memory", "much"), 2, "much"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_said_without_a_traceback(spark, inputs, tmp_path, arguments, code, said):
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(inputs[1].read_bytes()[:2_000])
    given = [a.format(broken=broken, plain=inputs[0]) for a in arguments]
    ran = run("plan", *given, "--out", tmp_path / "store")
    assert (ran.code, ran.stdout) == (code, "")
    assert said in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("lines", "options", "code", "said"),
    [
        ([REFUSED, REFUSED_BY_FLINK], (), 7, "nothing was planned: 2 of 2 topologies were refused"),
        ([PLANNED, REFUSED], ("--strict",), 7, "1 of 2 topologies were refused, and --strict allows none"),
        ([PLANNED, REFUSED], (), 0, "lists the reasons"),
        ([PLANNED], ("--strict",), 0, ""),
        ([REFUSED, REFUSED_BY_FLINK], ("--conf", "spark.sql.shuffle.partitions=4"), 7, "nothing was planned"),
        ([REFUSED, REFUSED_BY_FLINK], ("--planner", "joins"), 7, "nothing was planned"),
    ],
)
def test_the_exit_code_says_that_topologies_were_refused(spark, tmp_path, lines, options, code, said):
    """The version is written all the same."""
    source, out = tmp_path / "lines.jsonl", tmp_path / "store"
    source.write_text("\n".join(lines))
    ran = run("plan", source, "--out", out, "--until", "stream_graph", *options)
    assert (ran.code, said in " ".join(ran.stderr.split())) == (code, True), ran
    refused = len(lines) - lines.count(PLANNED)
    assert f"holds {len(lines) - refused} planned and {refused} rejected of {len(lines)}" in ran.stdout
    assert len(run("export", out).stdout.splitlines()) == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planner", "options"),
    [
        ("columnar", ()),
        pytest.param("joins", ("--conf", f"{JAVA_OPTIONS}=-XX:TieredStopAtLevel=1"), marks=pytest.mark.spark),
    ],
)
def test_a_process_of_its_own_says_one_line(golden, tmp_path, planner, options):
    """Nothing from Spark, Java or a progress bar on standard error where no one watches."""
    source, out = tmp_path / "one.jsonl", tmp_path / "store"
    source.write_text(json.dumps(golden[0]["topology"]))
    arguments = [
        "plan",
        str(source),
        "--out",
        str(out),
        "--planner",
        planner,
        "--until",
        "topology",
        *options,
    ]
    command = [sys.executable, "-m", "penstock.engine.commands.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: version 1 holds 1 planned and 0 rejected of 1 topologies (")
