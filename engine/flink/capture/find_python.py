"""The Python that runs PyFlink scripts: one that has the PyFlink of the distribution's version."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.engine.configuration.read_yaml_settings import read_yaml_settings
from penstock.engine.flink.capture.flink_home import FlinkHome
from penstock.plans.errors import ConfigurationError

CLIENT_EXECUTABLE = "PYFLINK_CLIENT_EXECUTABLE"
"""The environment variable that Flink reads where no configuration names a Python."""

CLIENT_OPTION = "python.client.executable"

_TELL_VERSION = """
import importlib.util
try:
    found = importlib.util.find_spec("pyflink.java_gateway")
except ImportError:
    found = None
if found:
    from pyflink.version import __version__
    print(__version__)
"""


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
    for python in [named] if named else _candidates(environment):
        if python not in seen:
            version = _pyflink_version(python, environment)
            if version and (named or _release(version) == release):
                return python
            seen[python] = version
    looked = ", ".join(f"{python} ({version or 'none'})" for python, version in seen.items())
    raise ConfigurationError(
        f"PyFlink: found {looked or 'no Python'}, allowed a Python that has PyFlink {release}",
        f"install apache-flink=={home.version} for one of them, or name another by {CLIENT_EXECUTABLE}",
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


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    if sys.executable:
        yield sys.executable
    for name in ("python3", "python"):
        if found := shutil.which(name, path=environment.get("PATH")):
            yield found


def _pyflink_version(python: str, environment: Mapping[str, str]) -> str:
    """Empty if this Python has no PyFlink or does not run."""
    command = [python, "-c", _TELL_VERSION]
    try:
        run = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _release(version: str) -> str:
    """The version without the patch: 2.3 of 2.3.0."""
    return ".".join(version.split(".")[:2])
