"""Where a Flink distribution has its jars, configuration and Python; what its command line needs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.engine.configuration.read_yaml_settings import read_yaml_settings
from penstock.engine.flink.flink_jars import flink_jars
from penstock.plans.errors import ConfigurationError

_DIST_JAR = re.compile(r"flink-dist(?:_[0-9.]+)?-(?P<version>.+)\.jar").fullmatch

_OPENED_PACKAGES = (
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "sun.nio.ch",
    "java.lang.reflect",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
)

JAVA_OPTIONS = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES)
"""What Flink's own configuration has Java open to it (env.java.opts.all)."""


class FlinkHome(NamedTuple):
    """A distribution: its folder and version, and the jars of lib and opt."""

    folder: Path
    version: str
    lib: list[Path]
    opt: list[Path]


def find_flink_home(named_by_option: Path | None, environment: Mapping[str, str]) -> FlinkHome:
    """The distribution for a jar or a SQL script.

    It is `named_by_option`, else that of FLINK_HOME, else that of the extra `flink`, else that of a
    PyFlink (see flink_of_pythons). Raises ConfigurationError if there is none.
    """
    if (named := _named_home(named_by_option, environment)) is not None:
        return named
    try:
        return _home(flink_jars().parent, "the extra flink")
    except ConfigurationError as error:
        folder = flink_of_pythons(environment, None)
        if folder is None:
            raise ConfigurationError(
                f"no Flink: neither --flink nor FLINK_HOME names one, and {error.message}",
                f"name a distribution by --flink HOME, or {error.hint}",
            ) from error
        return _home(folder, "PyFlink")


def find_flink_home_of_script(
    named_by_option: Path | None, environment: Mapping[str, str], options: Mapping[str, str]
) -> FlinkHome:
    """The distribution for a PyFlink script: of the PyFlink that would run it, unless one is named.

    Raises ConfigurationError as find_flink_home.
    """
    if (named := _named_home(named_by_option, environment)) is not None:
        return named
    folder = flink_of_pythons(environment, options.get(CLIENT_OPTION) or environment.get(CLIENT_EXECUTABLE))
    return find_flink_home(named_by_option, environment) if folder is None else _home(folder, "PyFlink")


def _named_home(named_by_option: Path | None, environment: Mapping[str, str]) -> FlinkHome | None:
    if named_by_option is not None:
        return _home(named_by_option, "--flink")
    named = environment.get("FLINK_HOME")
    return _home(Path(named), "FLINK_HOME") if named else None


def _home(folder: Path, where: str) -> FlinkHome:
    if not folder.is_dir():
        raise ConfigurationError(f"{where}: there is no folder {folder}", "name the folder of a distribution")
    lib = _jars(folder / "lib")
    versions = [dist_jar["version"] for jar in lib if (dist_jar := _DIST_JAR(jar.name))]
    if len(versions) != 1:
        raise ConfigurationError(
            f"{where}: found {len(versions)} jars named flink-dist-*.jar in {folder / 'lib'}, allowed 1",
            "name the folder of a Flink distribution, which has lib and opt",
        )
    return FlinkHome(folder.absolute(), versions[0], lib, _jars(folder / "opt"))


def environment_of(home: FlinkHome, environment: Mapping[str, str], configuration: Path) -> dict[str, str]:
    """What Flink's scripts set before they start Java; `configuration` where the distribution has none."""
    own = home.folder / "conf"
    conf = environment.get("FLINK_CONF_DIR") or str(own if own.is_dir() else configuration)
    folders = {
        "FLINK_HOME": home.folder,
        "FLINK_LIB_DIR": home.folder / "lib",
        "FLINK_OPT_DIR": home.folder / "opt",
        "FLINK_PLUGINS_DIR": home.folder / "plugins",
        "FLINK_CONF_DIR": Path(conf),
    }
    return {**environment, **{name: str(folder) for name, folder in folders.items()}}


def require_configuration(home: FlinkHome, folder: Path) -> None:
    """Raises ConfigurationError if Flink does not start with the configuration in `folder`.

    Flink's command line then ends with exit code 31, without a word. Source: GlobalConfiguration.
    """
    old, new = (folder / name for name in ("flink-conf.yaml", "config.yaml"))
    reads_old = home.version.startswith("1.")
    file = old if reads_old and not new.exists() and old.exists() else new
    if not file.exists():
        migrate = "; bin/migrate-config-file.sh writes it from flink-conf.yaml" if old.exists() else ""
        raise ConfigurationError(
            f"{file}: no such file, and Flink {home.version} does not start without it",
            f"an empty file will do{migrate}; FLINK_CONF_DIR names another folder",
        )
    if not file.is_file() or not os.access(file, os.R_OK):
        raise ConfigurationError(f"{file}: is not a file that can be read, so Flink does not start")
    read = read_yaml_settings(str(file))
    if read.problems and not read.settings and file == new:
        raise ConfigurationError(f"Flink does not start with its configuration: {read.problems[0]}")


def write_empty_configuration(folder: Path) -> Path:
    """A configuration that sets nothing, under the names that Flink 1.20 and 2.x read."""
    folder.mkdir()
    for name in ("config.yaml", "flink-conf.yaml"):
        (folder / name).touch()
    return folder


def class_path(home: FlinkHome, more: list[Path], environment: Mapping[str, str]) -> str:
    """The class path in the order of Flink's scripts: flink-dist last, then `more`, then Hadoop's."""
    ordered = sorted(home.lib, key=lambda jar: bool(_DIST_JAR(jar.name)))
    hadoop = [environment[name] for name in ("HADOOP_CLASSPATH",) if environment.get(name)]
    return os.pathsep.join([*map(str, [*ordered, *more]), *hadoop])


def opt_jars(home: FlinkHome, *prefixes: str) -> list[Path]:
    """The first jar in opt for each prefix, by a name of prefix and version; none for those in lib."""
    jars = []
    for prefix in prefixes:
        named = re.compile(rf"{re.escape(prefix)}-[0-9].*").fullmatch
        if not any(named(jar.name) for jar in home.lib):
            jars += [jar for jar in home.opt if named(jar.name)][:1]
    return jars


def has_jar(home: FlinkHome, prefix: str) -> bool:
    """Whether lib or opt has this jar in any version."""
    return any(re.fullmatch(rf"{re.escape(prefix)}-[0-9].*", jar.name) for jar in [*home.lib, *home.opt])


def _jars(folder: Path) -> list[Path]:
    return sorted(path.absolute() for path in folder.rglob("*.jar")) if folder.is_dir() else []


# Which PyFlink a Python has, and which Pythons are asked.


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
    """The PyFlink that a Python has; None if it has none, or does not run."""
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
    pythons = [sys.executable]
    pythons += [shutil.which(name, path=environment.get("PATH")) or "" for name in ("python3", "python")]
    return [python for python in dict.fromkeys(pythons) if python]


def flink_of_pythons(environment: Mapping[str, str], named: str | None) -> Path | None:
    """The folder of the first PyFlink with Flink's jars: of the Python `named`, else of the candidates."""
    for python in [named] if named else candidate_pythons(environment):
        pyflink = pyflink_of_python(python, environment)
        if pyflink is not None and any(pyflink.folder.glob("lib/flink-dist*.jar")):
            return pyflink.folder
    return None
