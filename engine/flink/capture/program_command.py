"""Build command lines that run programs like `flink run` and the SQL client."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from penstock.engine.configuration.load_configuration import read_yaml_settings
from penstock.engine.flink.capture.run_capture import agent_jar
from penstock.engine.flink.plan_with_flink import flink_jars
from penstock.plans.errors import ConfigurationError

# Find a Flink distribution with its jars, configuration and Python.


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
"""Packages of Java that Flink's own configuration opens (env.java.opts.all)."""


class FlinkHome(NamedTuple):
    """The folder and version of a distribution, and the jars of lib and opt."""

    folder: Path
    version: str
    lib: list[Path]
    opt: list[Path]


def find_flink_home(named_by_option: Path | None, environment: Mapping[str, str]) -> FlinkHome:
    """Find the distribution for a jar or a SQL script.

    It is `named_by_option`, else FLINK_HOME, else the extra `flink`, else the distribution in a
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
                f"Flink is required: neither --flink nor FLINK_HOME names one, and {error.message}",
                f"name a distribution by --flink HOME, or {error.hint}",
            ) from error
        return _home(folder, "PyFlink")


def find_flink_home_of_script(
    named_by_option: Path | None, environment: Mapping[str, str], options: Mapping[str, str]
) -> FlinkHome:
    """Find the distribution for a PyFlink script, the PyFlink that would run it unless one is named.

    Raises the errors of find_flink_home.
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
        raise ConfigurationError(
            f"{where}: folder {folder} does not exist", "name the folder of a distribution"
        )
    lib = _jars(folder / "lib")
    versions = [dist_jar["version"] for jar in lib if (dist_jar := _DIST_JAR(jar.name))]
    if len(versions) != 1:
        raise ConfigurationError(
            f"{where}: {folder / 'lib'} must contain 1 jar named flink-dist-*.jar, got {len(versions)}",
            "name the folder of a Flink distribution, which has lib and opt",
        )
    return FlinkHome(folder.absolute(), versions[0], lib, _jars(folder / "opt"))


def _environment_of(home: FlinkHome, environment: Mapping[str, str], configuration: Path) -> dict[str, str]:
    """Return variables that Flink's scripts set before Java; `configuration` if the distribution has none."""
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
    """Raise ConfigurationError if Flink does not start with the configuration in `folder`.

    Flink's command line then ends with exit code 31, without a message. Source: GlobalConfiguration.
    """
    old, new = (folder / name for name in ("flink-conf.yaml", "config.yaml"))
    reads_old = home.version.startswith("1.")
    file = old if reads_old and not new.exists() and old.exists() else new
    if not file.exists():
        migrate = "; bin/migrate-config-file.sh writes it from flink-conf.yaml" if old.exists() else ""
        raise ConfigurationError(
            f"{file} does not exist, and Flink {home.version} does not start without it",
            f"an empty file is enough{migrate}; FLINK_CONF_DIR names another folder",
        )
    if not file.is_file() or not os.access(file, os.R_OK):
        raise ConfigurationError(f"{file} must be a readable file, or Flink does not start")
    read = read_yaml_settings(str(file))
    if read.problems and not read.settings and file == new:
        raise ConfigurationError(f"Flink does not start with its configuration: {read.problems[0]}")


def _write_empty_configuration(folder: Path) -> Path:
    """Write a configuration without settings, under the names that Flink 1.20 and 2.x read."""
    folder.mkdir()
    for name in ("config.yaml", "flink-conf.yaml"):
        (folder / name).touch()
    return folder


def _class_path(home: FlinkHome, more: list[Path], environment: Mapping[str, str]) -> str:
    """Return the class path in the order of Flink's scripts.

    The order is lib with flink-dist last, then `more`, then Hadoop's.
    """
    ordered = sorted(home.lib, key=lambda jar: bool(_DIST_JAR(jar.name)))
    hadoop = [environment[name] for name in ("HADOOP_CLASSPATH",) if environment.get(name)]
    return os.pathsep.join([*map(str, [*ordered, *more]), *hadoop])


def _opt_jars(home: FlinkHome, *prefixes: str) -> list[Path]:
    """Return the first jar in opt for each prefix, named prefix and version; none for jars in lib."""
    jars = []
    for prefix in prefixes:
        named = re.compile(rf"{re.escape(prefix)}-[0-9].*").fullmatch
        if not any(named(jar.name) for jar in home.lib):
            jars += [jar for jar in home.opt if named(jar.name)][:1]
    return jars


def _has_jar(home: FlinkHome, prefix: str) -> bool:
    """Return whether lib or opt has this jar in any version."""
    return any(re.fullmatch(rf"{re.escape(prefix)}-[0-9].*", jar.name) for jar in [*home.lib, *home.opt])


def _jars(folder: Path) -> list[Path]:
    return sorted(path.absolute() for path in folder.rglob("*.jar")) if folder.is_dir() else []


# Find the PyFlink of a Python.


CLIENT_EXECUTABLE = "PYFLINK_CLIENT_EXECUTABLE"
"""The environment variable that Flink reads if no configuration names a Python."""

CLIENT_OPTION = "python.client.executable"

_PRINT_PYFLINK = """
import importlib.util
try:
    spec = importlib.util.find_spec("pyflink.java_gateway")
except ImportError:
    spec = None
if spec:
    import os
    from pyflink.version import __version__
    print(__version__)
    print(os.path.dirname(os.path.abspath(spec.origin)))
"""


class PyFlink(NamedTuple):
    """The version and folder of a Python's PyFlink."""

    version: str
    folder: Path


def _pyflink_of_python(python: str, environment: Mapping[str, str]) -> PyFlink | None:
    """Return a Python's PyFlink; None if it has none, or does not run."""
    command = [python, "-c", _PRINT_PYFLINK]
    try:
        run = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = run.stdout.splitlines()
    return PyFlink(printed[0], Path(printed[1])) if run.returncode == 0 and len(printed) == 2 else None


def _candidate_pythons(environment: Mapping[str, str]) -> list[str]:
    """Return the Python that runs Penstock, then the ones on PATH."""
    pythons = [sys.executable]
    pythons += [shutil.which(name, path=environment.get("PATH")) or "" for name in ("python3", "python")]
    return [python for python in dict.fromkeys(pythons) if python]


def flink_of_pythons(environment: Mapping[str, str], named: str | None) -> Path | None:
    """Return the folder of the first PyFlink with Flink's jars, of the Python `named` or the candidates."""
    for python in [named] if named else _candidate_pythons(environment):
        pyflink = _pyflink_of_python(python, environment)
        if pyflink is not None and any(pyflink.folder.glob("lib/flink-dist*.jar")):
            return pyflink.folder
    return None


_SQL_CLIENT = "flink-sql-client"
_SQL_GATEWAY = "flink-sql-gateway"
_PYTHON = "flink-python"
_PARALLELISM = "parallelism.default"


class ProgramKind(StrEnum):
    """The kind of a program, by the end of its name."""

    JAR = ".jar"
    SQL = ".sql"
    PYTHON = ".py"


class Program(NamedTuple):
    """The file of a program to capture, its arguments, and the options of `flink run`."""

    file: Path
    kind: ProgramKind
    arguments: list[str]
    main_class: str | None
    parallelism: int | None
    options: Mapping[str, str]


class ProgramCommand(NamedTuple):
    """A command line with its environment.

    `tells_errors`: it exits with 0 even after an [ERROR]. `no_python`: the reason why functions in Python
    would fail.
    """

    line: list[str]
    environment: dict[str, str]
    tells_errors: bool
    no_python: ConfigurationError | None = None


def program_kind(file: str) -> ProgramKind:
    """Return the kind of a program. Raises ConfigurationError for a name with another ending."""
    for kind in ProgramKind:
        if file.lower().endswith(kind):
            return kind
    raise ConfigurationError(
        f"{file} must be a program for Flink ({', '.join(ProgramKind)})",
        "any other command that submits jobs goes after --: penstock capture -o jobs.jsonl -- COMMAND",
    )


def program_command(
    program: Program, home: FlinkHome, java: str, environment: Mapping[str, str], folder: Path
) -> ProgramCommand:
    """Return the command that runs the program; files that it needs are written into `folder`.

    Raises ConfigurationError if the file, or a part of the distribution that it needs, does not exist.
    """
    if not program.file.is_file():
        raise ConfigurationError(f"{program.file} does not exist")
    around = _environment_of(home, environment, _write_empty_configuration(folder / "conf"))
    require_configuration(home, Path(around["FLINK_CONF_DIR"]))
    no_python = None
    if _has_jar(home, _PYTHON):
        try:
            python = find_python(home, around, program.options)
            around |= {CLIENT_EXECUTABLE: python} if python else {}
        except ConfigurationError as error:
            no_python = error
    if program.kind == ProgramKind.SQL:
        return _sql(program, home, java, around, folder)._replace(no_python=no_python)
    line = [
        *_java(java, _class_path(home, [], around)),
        "org.apache.flink.client.cli.CliFrontend",
        "run",
        *(["-p", str(program.parallelism)] if program.parallelism else []),
        *(f"-D{key}={value}" for key, value in program.options.items()),
    ]
    if program.kind == ProgramKind.PYTHON:
        if not _has_jar(home, _PYTHON):
            raise ConfigurationError(
                f"{home.folder} lacks {_PYTHON}-*.jar in opt, which PyFlink scripts need"
            )
        if no_python is not None:
            raise no_python
        return ProgramCommand([*line, "-py", str(program.file), *program.arguments], around, False)
    main_class = ["-c", program.main_class] if program.main_class else []
    line += [*main_class, str(program.file), *program.arguments]
    return ProgramCommand(line, around, False, no_python)


def _java(java: str, jars: str) -> list[str]:
    return [java, *JAVA_OPTIONS, "-Dlog4j2.level=ERROR", "-cp", jars]


def _sql(
    program: Program, home: FlinkHome, java: str, environment: dict[str, str], folder: Path
) -> ProgramCommand:
    if program.arguments or program.main_class:
        raise ConfigurationError(f"{program.file}: a SQL script takes neither arguments nor a main class")
    options = {**program.options}
    if program.parallelism:
        options[_PARALLELISM] = str(program.parallelism)
    python = _opt_jars(home, _PYTHON)
    if _has_jar(home, _SQL_CLIENT) and _has_jar(home, _SQL_GATEWAY):
        jars = [*_opt_jars(home, _SQL_CLIENT, _SQL_GATEWAY), *python]
        initial = folder / "options.sql"
        initial.write_text("".join(_set_statement(*option) for option in options.items()), encoding="utf-8")
        files = ["-i", str(initial), "-f", str(program.file), "-hist", str(folder / "history")]
        client = ["org.apache.flink.table.client.SqlClient", *files]
        return ProgramCommand(
            [*_java(java, _class_path(home, jars, environment)), *client], environment, True
        )
    runner = ["penstock.flink.SqlScript", str(program.file)]
    jars = [*python, agent_jar()]
    pairs = [f"{key}={value}" for key, value in options.items()]
    return ProgramCommand(
        [*_java(java, _class_path(home, jars, environment)), *runner, *pairs], environment, False
    )


def _set_statement(key: str, value: str) -> str:
    quoted = [text.replace("'", "''") for text in (key, value)]
    return f"SET '{quoted[0]}' = '{quoted[1]}';\n"


def require_command(command: Sequence[str]) -> None:
    """Raise ConfigurationError if there is no such program."""
    if shutil.which(command[0]) is None:
        raise ConfigurationError(f"{command[0]}: no such command")


# Find the Python that runs PyFlink scripts and functions: one with the distribution's PyFlink.


def find_python(home: FlinkHome, environment: Mapping[str, str], options: Mapping[str, str]) -> str | None:
    """Return the value of PYFLINK_CLIENT_EXECUTABLE; None if Flink finds a Python by itself.

    Flink finds one if an option or the distribution's configuration names it, and gives its own PyFlink, if
    the distribution has it in opt/python, to the `python` of PATH. Else a Python with PyFlink is needed: the
    one named by the environment; the one whose PyFlink contains these jars; the one that runs Penstock; those
    of PATH. Raises ConfigurationError if none has it.
    """
    named = environment.get(CLIENT_EXECUTABLE)
    if CLIENT_OPTION in options or _is_configured(Path(environment["FLINK_CONF_DIR"])):
        return named
    if any((home.folder / "opt" / "python").glob("pyflink*.zip")):
        return named or shutil.which("python", path=environment.get("PATH")) or sys.executable or None
    if not named and (python := _python_of_environment(home)):
        return python
    release = _release(home.version)
    seen: dict[str, str] = {}
    for python in [named] if named else _candidate_pythons(environment):
        pyflink = _pyflink_of_python(python, environment)
        version = pyflink.version if pyflink else ""
        if version and (named or _release(version) == release):
            return python
        seen[python] = version
    pythons = ", ".join(f"{python} ({version or 'none'})" for python, version in seen.items())
    raise ConfigurationError(
        f"a Python with PyFlink {release} is required, got {pythons or 'no Python'}",
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


def _python_of_environment(home: FlinkHome) -> str | None:
    """Return the Python of the environment that contains the distribution as its PyFlink."""
    python = home.folder.parents[3] / "bin" / "python"
    return str(python) if (home.folder / "java_gateway.py").is_file() and python.is_file() else None


def _release(version: str) -> str:
    """Return the version without the patch, such as 2.3 for 2.3.0."""
    return ".".join(version.split(".")[:2])
