"""The Python that runs PyFlink scripts and functions: one that has the distribution's PyFlink."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.configuration.read_yaml_settings import read_yaml_settings
from penstock.engine.flink.capture.flink_home import FlinkHome
from penstock.engine.flink.capture.pyflink_of_python import (
    CLIENT_EXECUTABLE,
    CLIENT_OPTION,
    candidate_pythons,
    pyflink_of_python,
)
from penstock.plans.errors import ConfigurationError


def find_python(home: FlinkHome, environment: Mapping[str, str], options: Mapping[str, str]) -> str | None:
    """The value of PYFLINK_CLIENT_EXECUTABLE; None where Flink finds a Python by itself.

    Flink finds one where an option or the distribution's configuration names it, and gives its own PyFlink,
    if the distribution has it in opt/python, to the `python` of PATH. Else a Python is needed that has
    PyFlink: the one that the environment names; that of the PyFlink whose jars these are; the one that runs
    Penstock; those of PATH. Raises ConfigurationError if none has it.
    """
    named = environment.get(CLIENT_EXECUTABLE)
    if CLIENT_OPTION in options or _is_configured(Path(environment["FLINK_CONF_DIR"])):
        return named
    if any((home.folder / "opt" / "python").glob("pyflink*.zip")):
        return named or shutil.which("python", path=environment.get("PATH")) or sys.executable or None
    if not named and (beside := _python_beside(home)):
        return beside
    release = _release(home.version)
    seen: dict[str, str] = {}
    for python in [named] if named else candidate_pythons(environment):
        pyflink = pyflink_of_python(python, environment)
        version = pyflink.version if pyflink else ""
        if version and (named or _release(version) == release):
            return python
        seen[python] = version
    looked = ", ".join(f"{python} ({version or 'none'})" for python, version in seen.items())
    raise ConfigurationError(
        f"PyFlink: found {looked or 'no Python'}, allowed a Python that has PyFlink {release}",
        f"install apache-flink=={home.version} for one of them, name another by {CLIENT_EXECUTABLE}, or name "
        "another distribution by --flink",
    )


def _is_configured(folder: Path) -> bool:
    files = [folder / name for name in ("config.yaml", "flink-conf.yaml")]
    return any(
        setting.key == CLIENT_OPTION
        for file in files
        if file.is_file()
        for setting in read_yaml_settings(str(file)).settings
    )


def _python_beside(home: FlinkHome) -> str | None:
    """The Python of the environment whose PyFlink the distribution is."""
    python = home.folder.parents[3] / "bin" / "python"
    return str(python) if (home.folder / "java_gateway.py").is_file() and python.is_file() else None


def _release(version: str) -> str:
    """The version without the patch: 2.3 of 2.3.0."""
    return ".".join(version.split(".")[:2])
