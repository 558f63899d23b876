"""Planning on several machines: the tables of one process, whatever is lost or done twice on the way.

A cluster's two executors are processes of their own, on addresses of their own, in other folders than the
driver, and without its environment. A process of its own plans all cases in one session of given settings,
and prints for each the tables that are not equal, and which kinds of trouble came to pass.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import penstock
from penstock.engine.planning import plan_in_workers, plan_on_spark
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.planners import Planner
from penstock.engine.spark.session import get_session
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.plans.blocks import run_blocks
from penstock.plans.blocks.messages import Inbox, Message
from penstock.plans.blocks.stages import Step
from penstock.plans.frames.spark_schemas import is_local
from penstock.plans.layers import PlanOptions
from penstock.plans.vocabulary import Layer
from tests.engine.run.runtime.spark_cluster import spark_cluster
from tests.plans.blocks.test_giants_on_spark import wide, written_as_tables
from tests.plans.planners.table_contents import rows_of
from tests.reference.random_topologies import random_topology

BLOCKS: Any = run_blocks
WORKERS: Any = plan_in_workers
TOPOLOGIES: Any = plan_on_spark

ROOT = Path(__file__).parents[3]
GIANT = wide("giant", 5_000)  # two blocks
OTHERS = [wide("refused", 40, uid=""), *(random_topology(seed, 12) for seed in range(30))]
WITHOUT = ("source_file", "source_line")

TWICE, WORKER, EXECUTOR = "twice", "worker", "executor"
"""A task that ends when it has been done twice; a Python worker or an executor that ends with all that its
task has done."""

DEADLINE_SECONDS = 120.0

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
STRICT = {
    "spark.task.maxFailures": "1",
    "spark.driver.maxResultSize": "64m",
    "spark.python.worker.reuse": "false",
    "spark.io.encryption.enabled": "true",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "200ms",
}
SESSIONS = {
    "strict": (STRICT, {"make_edges": TWICE, "finish": TWICE, "fleet": TWICE}),
    "losses": (
        {"spark.speculation": "false"},
        {
            "make_nodes": WORKER,
            "walk_graph": EXECUTOR,
            "finish": EXECUTOR,
            "fleet": EXECUTOR,
        },
    ),
}


def with_trouble(folder: Path, how: str, name: str) -> Callable[[], None]:
    """What a task calls when it has done its work: for each name, the first one gets into trouble."""

    def trouble() -> None:
        context: Any = TaskContext.get()
        task = f"{name} {context.partitionId()}"
        (folder / f"{task} {uuid.uuid4().hex}").touch()
        try:
            os.close(os.open(folder / f"{how} {name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if how == TWICE:
            end = time.monotonic() + DEADLINE_SECONDS
            while len(list(folder.glob(f"{task} *"))) < 2:
                assert time.monotonic() < end, f"{task} was not repeated"
                time.sleep(0.05)
        elif how == WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        else:  # the parent of Python's daemon
            status = Path(f"/proc/{os.getppid()}/status").read_text().splitlines()
            (executor,) = (int(line.split()[1]) for line in status if line.startswith("PPid:"))
            os.kill(executor, signal.SIGKILL)

    return trouble


def make_trouble(folder: Path, kinds: dict[str, str]) -> None:
    """Planning gets into this trouble from now on, in the stages of these names, and in fleets."""
    staged, planned = BLOCKS._staged, WORKERS.planned_by_flinks_rules

    def staged_with_trouble(frame: Any, step: Step) -> Any:
        if step.name not in kinds:
            return staged(frame, step)
        trouble, stage = with_trouble(folder, kinds[step.name], step.name), step.stage

        def run(to: int, inbox: Inbox) -> Iterator[Message]:
            yield from stage(to, inbox)
            trouble()

        return staged(frame, step._replace(stage=run))

    def planned_with_trouble(*arguments: Any) -> Any:
        trouble, plan = with_trouble(folder, kinds["fleet"], "fleet"), planned(*arguments)

        def run(frames: Any) -> Any:
            made = plan(frames)
            trouble()
            return made

        return run

    BLOCKS._staged = staged_with_trouble
    if "fleet" in kinds:
        WORKERS.planned_by_flinks_rules = planned_with_trouble


def unequal(tables: dict[str, Any], expected: Any) -> list[str]:
    """The tables that are not as expected."""
    assert tables.keys() == expected.keys()
    pairs = {name: (tables[name], rows) for name, rows in expected.items()}
    return [name for name, pair in pairs.items() if len({tuple(rows_of(rows, WITHOUT)) for rows in pair}) > 1]


def into_store(
    spark: SparkSession, folder: Path, topologies: list[dict[str, Any]], planner: Planner
) -> list[str]:
    """From a Delta folder into a store."""
    given, store = written_as_tables(folder / "given", topologies), folder / "store"
    plan_on_spark.plan_on_spark([str(given)], plan_options(), str(store), spark=spark, planner=planner)
    return unequal(read_plan(DeltaRsTables(str(store))), plan_in_process(str(given)).tables)


def giant_into_store(spark: SparkSession, folder: Path) -> list[str]:
    return into_store(spark, folder, [GIANT], Planner.JOINS)


def fleet_into_store(spark: SparkSession, folder: Path) -> list[str]:
    return into_store(spark, folder, OTHERS[1:], Planner.COLUMNAR)


def frames(spark: SparkSession, folder: Path) -> list[str]:
    """From DataFrames to DataFrames, of which some are read: of each part that executors keep."""
    given = plan_in_process([GIANT, *OTHERS], PlanOptions(Layer.TOPOLOGY)).tables
    tables = given["topologies"], given["transformations"]
    topologies, transformations = (spark.createDataFrame(table).repartition(2) for table in tables)
    planned: Any = penstock.plan((topologies, transformations), planner="joins")
    lose = with_trouble(folder / "trouble", EXECUTOR, "kept")

    def lost(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        lose()

    if spark.conf.get("spark.task.maxFailures", "4") != "1":
        spark.range(0, 1, 1, 1).mapInArrow(lost, "id long").collect()
    expected = plan_in_process(tables).tables
    read = ("transformations", "stream_edges", "job_edges", "rejected")
    found = unequal({name: planned.tables[name].toArrow() for name in read}, {n: expected[n] for n in read})
    planned.release()
    return found


def main(master: str, session: str, folder: Path) -> None:
    settings, kinds = SESSIONS[session]
    spark = get_session(master=master, conf=SETTINGS | settings)
    spark.sparkContext.setLogLevel("FATAL")
    os.environ["POLARS_MAX_THREADS"] = "none"  # of this process, and no number
    TOPOLOGIES.OF_GIANTS = Size(60, 2**40)
    TOPOLOGIES.partitions_for = lambda spark, rows: 2
    staged, planned = BLOCKS._staged, WORKERS.planned_by_flinks_rules
    for case in (giant_into_store, fleet_into_store, frames):
        own = folder / session / case.__name__
        (own / "trouble").mkdir(parents=True)
        BLOCKS._staged, WORKERS.planned_by_flinks_rules = staged, planned
        make_trouble(own / "trouble", kinds)
        began = time.monotonic()
        found = case(spark, own)
        came = sorted({path.name for path in (own / "trouble").iterdir() if len(path.name.split()) == 2})
        print(json.dumps({case.__name__: [found, came]}), flush=True)
        print(f"{case.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    spark.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    with spark_cluster(folder, workers=2, cores=1, environment=environment) as running:
        yield running.url


@pytest.mark.spark
@pytest.mark.parametrize("session", SESSIONS)
def test_tables_are_those_of_one_process(session: str, cluster: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", __name__, cluster, session, str(tmp_path)]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        found |= json.loads(line) if line.startswith("{") else {}
    of_giants = [f"{how} {name}" for name, how in SESSIONS[session][1].items() if name != "fleet"]
    of_fleets = [f"{how} {name}" for name, how in SESSIONS[session][1].items() if name == "fleet"]
    of_kept = ["executor kept"] if session == "losses" else []
    assert found == {
        "giant_into_store": [[], sorted(of_giants)],
        "fleet_into_store": [[], of_fleets],
        "frames": [[], sorted(of_giants + of_fleets + of_kept)],
    }


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("spark://host:7077", False)],
)
def test_executors_beside_the_driver_can_be_lost(master: str, local: bool) -> None:
    assert is_local(SimpleNamespace(master=master)) is local


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
