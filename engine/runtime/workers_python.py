"""Lets the workers of one job run on the Python interpreter that the job asks for.

Source: org.apache.flink.python.PythonOptions.PYTHON_EXECUTABLE.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyspark.sql import SparkSession

from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.job import Job
from penstock.engine.runtime.no_effect import say_once
from penstock.engine.runtime.spark_application import is_remote

_OPTION = "python.executable"
_PROBE = (
    "import importlib, json, sys\n"
    "missing = []\n"
    "for name in ('penstock.operators', 'pyspark', 'pyarrow'):\n"
    "    try: importlib.import_module(name)\n"
    "    except ImportError: missing.append(name)\n"
    "print(json.dumps([list(sys.version_info[:2]), missing]))"
)


@contextmanager
def workers_python(spark: SparkSession, job: Job) -> Iterator[None]:
    """Functions that are handed to Spark inside the block run on the interpreter of `job`, if it names one.

    JobCompileError for one that is not there, or on which workers could not run.
    """
    wanted = job.python_executable
    if wanted is None:
        yield
        return
    if is_remote(spark):
        say_once([f"{_OPTION} {wanted}"], "the workers of a session run on the session's own Python")
        yield
        return
    if any(wanted.startswith(f"{folder or os.path.basename(path)}/") for path, folder in job.archives):
        say_once([f"{_OPTION} {wanted}"], "workers run already where they unpack a job's archives")
        yield
        return
    context = spark.sparkContext
    executable = _usable(wanted) if str(context.master).startswith("local") else wanted
    before, context.pythonExec = context.pythonExec, executable
    try:
        yield
    finally:
        context.pythonExec = before


@cache
def _usable(wanted: str) -> str:
    """The path of an interpreter of this machine on which workers can run."""
    executable = shutil.which(wanted)
    if executable is None:
        raise JobCompileError(f"{_OPTION} {wanted!r}: there is no such program")
    if os.path.samefile(executable, sys.executable):
        return sys.executable
    done = subprocess.run([executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    try:
        version, missing = json.loads(done.stdout)
    except ValueError:
        raise JobCompileError(f"{_OPTION} {wanted!r} is no Python interpreter") from None
    here = list(sys.version_info[:2])
    if version != here:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} is Python {'.'.join(map(str, version))}, and this process runs on "
            f"{'.'.join(map(str, here))}: Spark's workers need the same version"
        )
    if missing:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} has no {' and no '.join(missing)}: install Penstock for it (pip install "
            "penstock), because workers run Penstock's operators"
        )
    return executable
