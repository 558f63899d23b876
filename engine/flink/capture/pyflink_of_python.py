"""Which PyFlink a Python has, and which Pythons are asked."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CLIENT_EXECUTABLE = "PYFLINK_CLIENT_EXECUTABLE"
"""The environment variable that Flink reads where no configuration names a Python."""

CLIENT_OPTION = "python.client.executable"

_TELL_PYFLINK = """
import importlib.util
try:
    found = importlib.util.find_spec("pyflink.java_gateway")
except ImportError:
    found = None
if found:
    import os
    from pyflink.version import __version__
    print(__version__)
    print(os.path.dirname(os.path.abspath(found.origin)))
"""


class PyFlink(NamedTuple):
    """The version and folder of a Python's PyFlink."""

    version: str
    folder: Path


def pyflink_of_python(python: str, environment: Mapping[str, str]) -> PyFlink | None:
    """None if this Python has no PyFlink or does not run."""
    command = [python, "-c", _TELL_PYFLINK]
    try:
        run = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = run.stdout.splitlines()
    return PyFlink(told[0], Path(told[1])) if run.returncode == 0 and len(told) == 2 else None


def candidate_pythons(environment: Mapping[str, str]) -> list[str]:
    """The Python that runs Penstock, then those of PATH."""
    found = [sys.executable]
    found += [shutil.which(name, path=environment.get("PATH")) or "" for name in ("python3", "python")]
    return [python for python in dict.fromkeys(found) if python]


def flink_of_pythons(environment: Mapping[str, str], named: str | None) -> Path | None:
    """The folder of the first PyFlink with Flink's jars: of the Python `named`, else of the candidates."""
    for python in [named] if named else candidate_pythons(environment):
        pyflink = pyflink_of_python(python, environment)
        if pyflink is not None and any(pyflink.folder.glob("lib/flink-dist*.jar")):
            return pyflink.folder
    return None
