"""The command lines that run programs as `flink run` and the SQL client do."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from penstock.engine.configuration.read_yaml_settings import read_yaml_settings
from penstock.engine.flink.capture.agent_jar import agent_jar
from penstock.engine.flink.capture.flink_home import (
    CLIENT_EXECUTABLE,
    CLIENT_OPTION,
    JAVA_OPTIONS,
    FlinkHome,
    candidate_pythons,
    class_path,
    environment_of,
    has_jar,
    opt_jars,
    pyflink_of_python,
    require_configuration,
    write_empty_configuration,
)
from penstock.plans.errors import ConfigurationError

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
    """The program to capture: a file with its arguments, and the options of `flink run`."""

    file: Path
    kind: ProgramKind
    arguments: list[str]
    main_class: str | None
    parallelism: int | None
    options: Mapping[str, str]


class ProgramCommand(NamedTuple):
    """A command line with its environment.

    `tells_errors`: it exits with 0 even after an [ERROR]. `no_python`: why functions in Python would fail.
    """

    line: list[str]
    environment: dict[str, str]
    tells_errors: bool
    no_python: ConfigurationError | None = None


def program_kind(file: str) -> ProgramKind:
    """Raises ConfigurationError for a name that ends otherwise."""
    for kind in ProgramKind:
        if file.lower().endswith(kind):
            return kind
    raise ConfigurationError(
        f"{file}: found no program that Flink takes, allowed {', '.join(ProgramKind)}",
        "any other command that submits jobs goes after --: penstock capture -o jobs.jsonl -- COMMAND",
    )


def program_command(
    program: Program, home: FlinkHome, java: str, environment: Mapping[str, str], folder: Path
) -> ProgramCommand:
    """How to run the program; files that this needs are written into `folder`.

    Raises ConfigurationError if the file or what it needs of the distribution is not there.
    """
    if not program.file.is_file():
        raise ConfigurationError(f"{program.file}: no such file")
    around = environment_of(home, environment, write_empty_configuration(folder / "conf"))
    require_configuration(home, Path(around["FLINK_CONF_DIR"]))
    no_python = None
    if has_jar(home, _PYTHON):
        try:
            python = find_python(home, around, program.options)
            around |= {CLIENT_EXECUTABLE: python} if python else {}
        except ConfigurationError as error:
            no_python = error
    if program.kind == ProgramKind.SQL:
        return _sql(program, home, java, around, folder)._replace(no_python=no_python)
    line = [
        *_java(java, class_path(home, [], around)),
        "org.apache.flink.client.cli.CliFrontend",
        "run",
        *(["-p", str(program.parallelism)] if program.parallelism else []),
        *(f"-D{key}={value}" for key, value in program.options.items()),
    ]
    if program.kind == ProgramKind.PYTHON:
        if not has_jar(home, _PYTHON):
            raise ConfigurationError(
                f"{home.folder}: has no {_PYTHON}-*.jar in opt, which PyFlink scripts need"
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
    python = opt_jars(home, _PYTHON)
    if has_jar(home, _SQL_CLIENT) and has_jar(home, _SQL_GATEWAY):
        jars = [*opt_jars(home, _SQL_CLIENT, _SQL_GATEWAY), *python]
        initial = folder / "options.sql"
        initial.write_text("".join(_set_statement(*option) for option in options.items()), encoding="utf-8")
        files = ["-i", str(initial), "-f", str(program.file), "-hist", str(folder / "history")]
        client = ["org.apache.flink.table.client.SqlClient", *files]
        return ProgramCommand([*_java(java, class_path(home, jars, environment)), *client], environment, True)
    runner = ["penstock.flink.SqlScript", str(program.file)]
    jars = [*python, agent_jar()]
    pairs = [f"{key}={value}" for key, value in options.items()]
    return ProgramCommand(
        [*_java(java, class_path(home, jars, environment)), *runner, *pairs], environment, False
    )


def _set_statement(key: str, value: str) -> str:
    quoted = [text.replace("'", "''") for text in (key, value)]
    return f"SET '{quoted[0]}' = '{quoted[1]}';\n"


def require_command(command: Sequence[str]) -> None:
    """Raises ConfigurationError if there is no such program."""
    if shutil.which(command[0]) is None:
        raise ConfigurationError(f"{command[0]}: no such command")


# The Python that runs PyFlink scripts and functions: one that has the distribution's PyFlink.


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
