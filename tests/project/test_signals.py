"""Signals end a command at any moment with one line, its exit code, and nothing left running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from penstock.engine.machine.stop_on_signals import end_processes, is_running, process_tree
from tests.plans.topology.builders import simple
from tests.processes import command_line

ROOT = Path(__file__).parents[2]

SITE = """
import atexit, os, sys
event, _, name = os.environ["SIGNAL_AT"].partition(":")
number, once = int(os.environ["SIGNAL_NUMBER"]), []
def send():
    if not once:
        once.append(1)
        os.kill(os.getpid(), number)
def hook(happened, arguments):
    if happened == event and name in str(arguments[0]) and "PENSTOCK_PARENT_PID" not in os.environ:
        send()
if event == "atexit":
    atexit.register(send)
else:
    sys.addaudithook(hook)
"""
"""Sends a signal to its own process when a module is imported, a file is opened, or Python ends."""

JVM = b"org.apache.spark.deploy.SparkSubmit"
DAEMON = b"penstock.operators.task.worker_daemon"
"""Of Spark's Python workers: a job runs."""

ENDS = {
    signal.SIGINT: (130, "penstock: interrupted\n"),
    signal.SIGTERM: (143, "penstock: terminated\n"),
    signal.SIGHUP: (129, "penstock: hung up\n"),
}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "penstock.engine.commands.main", *map(str, arguments)]


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> tuple[Path, Path]:
    """A topology file, and a store with its plan."""
    folder = tmp_path_factory.mktemp("signals")
    lines, store = folder / "given.jsonl", folder / "store"
    lines.write_bytes(b"".join(orjson.dumps(simple(f"t{number}")) + b"\n" for number in range(3)))
    subprocess.run(command("plan", lines, "--out", store), cwd=ROOT, check=True, capture_output=True)
    return lines, store


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(SITE)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "at", "arguments"),
    [
        (signal.SIGINT, "import:typer", ["show", "{store}"]),
        (signal.SIGINT, "import:rich.console", ["show", "{store}"]),
        (signal.SIGINT, "import:polars.dataframe", ["show", "{store}"]),
        (signal.SIGINT, "import:pyarrow.lib", ["show", "{store}"]),
        (signal.SIGINT, "import:deltalake", ["show", "{store}"]),
        (signal.SIGINT, "atexit", ["show", "{store}"]),
        (signal.SIGTERM, "import:typer", ["show", "{store}"]),
        (signal.SIGTERM, "import:penstock.engine.commands.size", ["show", "{store}"]),
        (signal.SIGTERM, "atexit", ["show", "{store}"]),
        (signal.SIGHUP, "import:polars", ["export", "{store}"]),
        (signal.SIGTERM, "import:penstock.plans.planners.plan_as_read",
         ["plan", "{lines}", "--out", "{folder}/s"]),
        (signal.SIGINT, "import:penstock.engine.store.write_plan",
         ["plan", "{lines}", "--out", "{folder}/s"]),
        (signal.SIGTERM, "import:penstock.plans.generate.layered",
         ["generate", "chain", "--out", "{folder}/chain.jsonl"]),
    ],
)  # fmt: skip
def test_a_signal_at_any_moment_is_one_line(given, site, tmp_path, number, at, arguments):
    lines, store = given
    known = {"lines": lines, "store": store, "folder": tmp_path}
    done = subprocess.run(
        command(*(argument.format(**known) for argument in arguments)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(site), "SIGNAL_AT": at, "SIGNAL_NUMBER": str(int(number))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == ENDS[number]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_console_script_is_ready_before_its_imports(given, site, tmp_path):
    """It imports engine.commands.main in its first line."""
    script = tmp_path / "penstock"
    script.write_text("from penstock.engine.commands.main import main\nmain()\n")
    environment = {
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
        "SIGNAL_AT": "import:typer",
        "SIGNAL_NUMBER": "2",
    }
    done = subprocess.run(
        [sys.executable, script, "show", given[1]],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == ENDS[signal.SIGINT]


@pytest.mark.slow
def test_signals_that_are_switched_off_stay_off(given, site):
    """As under nohup."""
    environment = {"PYTHONPATH": str(site), "SIGNAL_AT": "import:polars", "SIGNAL_NUMBER": "1"}
    done = subprocess.run(
        ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command("show", given[1])],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["show", "export"])
def test_closed_standard_files_are_no_error(given, name):
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&- >&-', "sh", *command(name, given[1])],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def is_below(pid: int, program: bytes) -> bool:
    """Whether a process below runs a program with that in its command line."""
    return any(program in " ".join(command_line(below)).encode() for below in process_tree(pid) - {pid})


@pytest.fixture
def started(tmp_path):
    """Starts a command; what is left of it at the end of the test is killed."""
    processes = []
    trees: list[set[int]] = []

    def start(*arguments: object, below: bytes) -> tuple[subprocess.Popen[str], set[int]]:
        """The process, once that program runs below it, and all processes that there are then."""
        (tmp_path / "tmp").mkdir()
        process = subprocess.Popen(
            command(*arguments),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert until(lambda: process.poll() is not None or is_below(process.pid, below), 150)
        assert process.poll() is None, process.communicate()
        trees.append(process_tree(process.pid))
        return process, trees[0] - {process.pid}

    yield start
    for process in processes:
        process.kill()
        process.communicate()
    for tree in trees:
        end_processes(tree, 0)


def until(true, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(true())


def on_spark(*values):
    return pytest.param(*values, marks=pytest.mark.spark)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "below", "arguments"),
    [
        (signal.SIGTERM, b"measure_planner", ["bench", "--suite", "{lines}", "--planner", "columnar"]),
        on_spark(signal.SIGTERM, JVM, ["bench", "--suite", "{lines}", "--planner", "joins"]),
        on_spark(signal.SIGINT, DAEMON, ["plan", "{lines}", "--planner", "joins"]),
    ],
)
def test_nothing_is_left_running(given, started, tmp_path, number, below, arguments):
    known = (argument.format(lines=given[0]) for argument in arguments)
    process, below = started(*known, "--out", tmp_path / "out", below=below)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    said = said.removeprefix("measuring for about 2m; --budget changes that\n")
    assert (process.returncode, said) == ENDS[number]
    assert not {pid for pid in below if is_running(pid)}
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("planner", "below"), [("columnar", b"measure_planner"), on_spark("joins", JVM)])
def test_children_of_a_bench_that_is_killed_end_with_it(given, started, tmp_path, planner, below):
    arguments = ["--suite", given[0], "--planner", planner, "--out", tmp_path / "out"]
    process, left = started("bench", *arguments, below=below)
    process.kill()
    process.wait()
    assert until(lambda: not {pid for pid in left if is_running(pid)})


def test_a_program_that_cannot_ask_for_it_ends_with_its_parent():
    sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
    code = (
        "import subprocess\nfrom penstock.engine.machine.operating_system import with_parent\n"
        f"child = subprocess.Popen(with_parent({sleep!r}))\nprint(child.pid, flush=True)\nchild.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert until(lambda: command_line(child)[1:3] == sleep[1:])
    parent.kill()
    parent.communicate()
    assert until(lambda: not is_running(child), 30)
