"""What runs out of memory is one message, and commands that cannot start say so."""

import errno
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, cloudpickle

from penstock.engine.commands.main import COMMANDS
from penstock.engine.machine.available_memory import require_address_space
from penstock.engine.planning.plan_in_workers import memory_check_in_worker
from penstock.engine.spark.describe_memory_error import describe_memory_error, is_out_of_memory
from penstock.plans.errors import InputError, NotEnoughMemoryError

ROOT = Path(__file__).parents[2]


def raised_by(module: str, text: str, kind: type[BaseException] = Exception) -> BaseException:
    made: type[BaseException] = type("Raised", (kind,), {"__module__": module})
    return made(text)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 64 failed"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        pl.exceptions.ComputeError("memory allocation of 8 bytes failed"),
        raised_by("pyo3_runtime", "capacity overflow", BaseException),
        raised_by("py4j.protocol", "java.lang.OutOfMemoryError: Java heap space\n\tat a.b"),
        raised_by("pyspark.errors", "Job aborted: org.apache.spark.memory.SparkOutOfMemoryError: no"),
        raised_by("pyspark.errors", "penstock.plans.errors.NotEnoughMemoryError: planning 5 tasks"),
    ],
)
def test_whoever_runs_out_of_memory_it_is_told_apart(error):
    assert is_out_of_memory(error)
    said = describe_memory_error(error)
    assert said.startswith("not enough memory: ")
    assert "\n  hint: " in said
    wrapped = KeyError("k")
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped)


def test_what_follows_when_the_jvm_has_run_out_of_memory_is_told_as_that(monkeypatch):
    """It ends itself with SparkExitCode.OOM, and its exceptions can no longer be asked for what they say."""
    ended = SimpleNamespace(poll=lambda: 52, wait=lambda timeout: 52)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))
    for error in (Py4JNetworkError("Answer from Java side is empty"), InputError("cannot read a file")):
        assert is_out_of_memory(error)
        assert describe_memory_error(error).startswith("not enough memory: Spark's JVM has ended")
    ended.poll = lambda: 1
    assert not is_out_of_memory(Py4JNetworkError("Answer from Java side is empty"))


@pytest.mark.parametrize(
    "error", [ValueError("MemoryError"), InputError("Cannot allocate memory"), OSError(28, "no space")]
)  # fmt: skip
def test_other_errors_are_not(error):
    assert not is_out_of_memory(error)


def penstock_within(limit_bytes, *arguments):
    """`penstock` as a process whose address space is limited."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.engine.commands.main", *map(str, arguments)],
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit_bytes", [2**29, 3 * 2**29])
@pytest.mark.parametrize("command", ["plan", "export"])
def test_where_libraries_do_not_fit_a_command_does_not_start(command, limit_bytes, tmp_path):
    """They would end it in Rust."""
    done = penstock_within(limit_bytes, command, tmp_path / "x", "--out", tmp_path / "store")
    assert done.returncode == 9, done.stderr
    assert done.stderr.startswith(f"penstock: {command} does not start: its libraries reserve ")
    assert "ulimit -v" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize(("kind", "option"), [("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d")])
def test_every_command_but_doctor_needs_address_space(monkeypatch, command, kind, option):
    limits: dict[int, int] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda asked: (limits.get(asked, resource.RLIM_INFINITY),) * 2)
    require_address_space(command)
    limits[getattr(resource, kind)] = 2**29
    if command == "doctor":
        require_address_space(command)
        return
    with pytest.raises(NotEnoughMemoryError, match=f"{command} does not start.*ulimit {option}"):
        require_address_space(command)


def test_the_check_of_workers_imports_no_polars_before_it_is_called():
    check = cloudpickle.dumps(memory_check_in_worker())
    code = (
        "import sys\n"
        "from pyspark import cloudpickle\n"
        f"cloudpickle.loads({check!r})\n"
        "print({'polars', 'numpy', 'penstock'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
