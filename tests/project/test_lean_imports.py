"""What planning in process leaves out: pyspark, delta and pandas."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("pyspark", "py4j", "delta", "pandas")
OF_PICTURES = ("igraph", "matplotlib")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        "plan_in_process('engine/examples/examples.jsonl')",
        "import penstock; penstock.plan([{'name': 'a', 'transformations': [{'id': 1, 'kind': 'source'}]}])",
    ],
)
def test_planning_in_process(work):
    assert (
        run(
            "import sys\n"
            "from penstock.engine.planning.plan_in_process import plan_in_process\n"
            f"{work}\n"
            f"print({{name.split('.')[0] for name in sys.modules}} & set({(*LEFT_OUT, *OF_PICTURES)}))"
        )
        == "set()"
    )


@pytest.mark.slow
def test_pandas_is_used_as_ever_once_somebody_has_imported_it():
    assert (
        run(
            "from penstock.engine.planning.plan_in_process import plan_in_process\n"
            "plan_in_process('engine/examples/examples.jsonl')\n"
            "import pandas, pyarrow\n"
            "print(pyarrow.array(pandas.Series([1.0, float('nan')])).to_pylist(),"
            " pyarrow.table({'a': [1]}).to_pandas().a.tolist())"
        )
        == "[1.0, None] [1]"
    )


def test_pandas_that_is_there_already_is_used_while_planning():
    assert (
        run(
            "import pandas\n"
            "from penstock.operators.common.without_pandas import without_pandas\n"
            "with without_pandas():\n"
            "    import pyarrow\n"
            "    print(pyarrow.array(pandas.Series([1.0, float('nan')])).to_pylist())"
        )
        == "[1.0, None]"
    )


def test_another_thread_may_import_pandas_meanwhile():
    assert (
        run(
            "import threading\n"
            "from penstock.operators.common.without_pandas import without_pandas\n"
            "found = []\n"
            "def other():\n"
            "    import pandas\n"
            "    found.append(pandas.__name__)\n"
            "with without_pandas():\n"
            "    try:\n"
            "        import pandas\n"
            "    except ModuleNotFoundError:\n"
            "        found.append('left out')\n"
            "    thread = threading.Thread(target=other)\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "print(found)"
        )
        == "['left out', 'pandas']"
    )


@pytest.mark.slow
def test_workers_turn_values_into_columns_without_pandas():
    assert (
        run(
            "import sys\n"
            "import penstock.operators.task.worker_daemon\n"
            "from penstock.operators.common.arrow_columns import to_arrow\n"
            "from penstock.operators.common.typeinfo import Types\n"
            "from penstock.operators.common.key_groups import key_groups\n"
            "from penstock.operators.exchange.blocks import encode_values\n"
            "encode_values([1, 2], [3, 4], Types.LONG(), 5), key_groups(['a'], Types.STRING(), 128)\n"
            "print('pandas' in sys.modules)"
        )
        == "False"
    )


def test_workers_write_files_of_a_store_with_little_besides_arrow():
    assert (
        run(
            "import sys\n"
            "import penstock.engine.store.write_rows_in_workers\n"
            "import penstock.plans.topology.on_spark.local_transformations\n"
            "print({'deltalake', 'polars', 'pandas', 'pydantic'} & set(sys.modules))"
        )
        == "set()"
    )


def test_commands_import_nothing_that_only_others_need():
    """What one command needs reaches others through modules that both import."""
    for module, left_out in (
        ("engine.commands.jobs", ("deltalake", "pydantic", "polars")),
        ("engine.views.draw.graph", ("http.client", "xml.sax", "tomllib")),
        ("plans.errors", ("pyarrow", "pydantic")),
        ("engine.views.run_query", ("jinja2", "statistics")),
        ("engine.library.sides_to_compare", ("http.client", "pydantic", "rich")),
    ):
        found = run(f"import sys, penstock.{module}\nprint(sorted(set({left_out}) & set(sys.modules)))")
        assert found == "[]", module


def imports_of(package: str) -> Iterator[tuple[Path, str]]:
    """File and module of every import below a package, those inside functions too."""
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield file.relative_to(ROOT), node.module
            elif isinstance(node, ast.Import):
                yield from ((file.relative_to(ROOT), name.name) for name in node.names)


SPARK = ("pyspark", "py4j", "delta")
TAKE_SPARK = {
    "plans": {
        "plans/frames/packed_blocks.py",
        "plans/frames/spark_frames.py",
        "plans/frames/spark_schemas.py",
        "plans/frames/spark_walks.py",
        "plans/blocks/run_blocks.py",
        "plans/generate/generate_on_spark.py",
        "plans/metrics/plan_metrics_on_spark.py",
    },
    "operators": {
        "operators/task/worker_daemon.py",
        "operators/task/run_task.py",
        "operators/common/pickles.py",
        "operators/common/spark_ddl.py",
        "operators/common/spark_schemas.py",
        "operators/common/spark_types.py",
        "operators/task/sink_operators.py",
    },
    "engine": {
        "engine/run/clusters/session_server.py",
        "engine/measure/bench/measure_quality.py",
        "engine/commands/metrics.py",
        "engine/planning/write_layers.py",
        "engine/planning/plan_giants.py",
        "engine/planning/plan_in_workers.py",
        "engine/planning/metrics_on_spark.py",
        "engine/planning/plan_on_spark.py",
        "engine/planning/planning_settings.py",
        "engine/planning/memory_estimate.py",
        "engine/store/spark_tables.py",
        "engine/store/plan_tables.py",
        "engine/store/write_rows_in_workers.py",
        "engine/store/store_location.py",
        "engine/commands/explain_error.py",
        "engine/commands/doctor.py",
        "engine/library/open_store.py",
        "engine/library/generate.py",
        "engine/library/plan.py",
        "engine/library/measured.py",
        "engine/library/planned_graphs.py",
        "engine/library/planned_tables.py",
        "engine/library/session_topologies.py",
        "engine/library/given_topologies.py",
        "engine/library/sweep.py",
        "engine/library/batches_of_stream.py",
        "engine/library/run.py",
        "engine/library/stream.py",
        "engine/measure/sweep/run_sweep.py",
        "engine/planning/find_custom_planners.py",
    },
}
"""What else needs Spark: its planners, adapters of stores, what runs in its workers, and what says what its
errors mean."""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["plans", "operators", "engine"])
def test_only_what_needs_spark_imports_it(package):
    known = TAKE_SPARK.get(package, set())
    elsewhere = {
        str(file)
        for file, name in imports_of(package)
        if name.split(".")[0] in SPARK
        and "on_spark" not in file.with_suffix("").parts
        and not {"spark", "runtime", "datastream"} & set(file.parts[1:3])
    }
    assert elsewhere == known


MODULES = """
import sys
from penstock.engine.commands.main import app
for command in sys.argv[1:]:
    try:
        app(command.split())
    except SystemExit as end:
        assert not end.code, end.code
    found = sorted({name.split(".")[0] for name in sys.modules} & LEFT_OUT)
    assert not found, (command, found)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """The current folder of commands: a topology file and a store with its plan."""
    folder: Path = tmp_path_factory.mktemp("lean")
    line = (
        '{"name": "a", "transformations": [{"id": 1, "kind": "source", "name": "s"}, '
        '{"id": 2, "kind": "sink", "name": "k", "inputs": [1]}]}\n'
    )
    (folder / "a.jsonl").write_text(line + "refused\n")
    leave_out(folder, "plan a.jsonl --out store")
    return folder


@pytest.mark.slow
def test_one_thread_imports_no_pandas_either(store: Path):
    leave_out(store, "plan a.jsonl --out by_one_thread", POLARS_MAX_THREADS="1")


def leave_out(folder: Path, *commands: str, **environment: str) -> None:
    """Run commands, one after the other in an interpreter of their own: they import nothing of LEFT_OUT, no
    numba and no pydantic (with which Typer checks values that are not plain)."""
    code = MODULES.replace("LEFT_OUT", str({*LEFT_OUT, "numba", "pydantic"}))
    done = subprocess.run(
        [sys.executable, "-c", code, *commands],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


COMMANDS = (
    "plan a.jsonl --out other --until job_graph --slots-per-task-manager 2",
    "show store",
    "export store",
    "export store --format flink-plan",
    "rejected store",
    "verify store",
    "size store",
    "edges store --topology a",
    "draw store --topology a --format html",
    "draw a.jsonl --topology a",
    "diff store a.jsonl",
    "runs store",
    "generate random --topologies 3 --out made.jsonl",
    "generate layered --out made",
    "--help",
)


@pytest.mark.slow
def test_commands_on_local_files_import_no_spark_and_no_pandas(store: Path):
    leave_out(store, *COMMANDS)
