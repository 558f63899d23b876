"""Which Python runs a PyFlink script."""

import sys
from pathlib import Path

import pytest

from penstock.engine.flink.capture.program_command import (
    CLIENT_EXECUTABLE,
    CLIENT_OPTION,
    FlinkHome,
    Program,
    ProgramKind,
    find_flink_home,
    find_flink_home_of_script,
    find_python,
    program_command,
)
from penstock.plans.errors import ConfigurationError


def python_with(version: str, path: Path) -> str:
    """A program that answers as a Python with this PyFlink does."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\necho {path.parent}/pyflink-{version}\n" if version else "")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def home(tmp_path) -> FlinkHome:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").touch()
    return FlinkHome(tmp_path / "flink", "2.3.0", [], [])


@pytest.fixture
def pythons(tmp_path, monkeypatch):
    """Pythons with these versions of PyFlink: that of Penstock and that of PATH; and the environment."""

    def make(of_penstock, of_path):
        monkeypatch.setattr(sys, "executable", python_with(of_penstock, tmp_path / "penstock"))
        on_path = python_with(of_path, tmp_path / "bin" / "python3")
        environment = {"PATH": str(tmp_path / "bin"), "FLINK_CONF_DIR": str(tmp_path / "conf")}
        return sys.executable, on_path, environment

    return make


def test_the_first_that_has_the_pyflink_of_the_distribution(home, pythons):
    of_penstock, _, environment = pythons("2.3.1", "2.3.0")
    assert find_python(home, environment, {}) == of_penstock
    _, of_path, environment = pythons("2.2.0", "2.3.0")
    assert find_python(home, environment, {}) == of_path


def test_none_that_has_pyflink_is_told_with_what_was_found(home, pythons):
    of_penstock, of_path, environment = pythons("", "2.2.0")
    found = f"a Python with PyFlink 2.3 is required, got {of_penstock} \\(none\\), {of_path} \\(2.2.0\\)"
    with pytest.raises(ConfigurationError, match=found):
        find_python(home, environment, {})
    with pytest.raises(ConfigurationError, match=f"is required, got {of_penstock} \\(none\\)"):
        find_python(home, environment | {CLIENT_EXECUTABLE: of_penstock}, {})
    assert find_python(home, environment | {CLIENT_EXECUTABLE: of_path}, {}) == of_path


def test_flink_finds_one_where_it_is_told_or_brings_pyflink(home, pythons, tmp_path):
    _, _, environment = pythons("", "")
    assert find_python(home, environment, {"python.client.executable": "python3.9"}) is None
    configuration = tmp_path / "conf" / "config.yaml"
    configuration.write_text("python:\n  client:\n    executable: python3.9\n")
    assert find_python(home, environment, {}) is None
    configuration.write_text("")
    (home.folder / "opt" / "python").mkdir(parents=True)
    (home.folder / "opt" / "python" / "pyflink.zip").touch()
    brings = python_with("", tmp_path / "bin" / "python")
    assert find_python(home, environment, {}) == brings


def test_the_flink_of_a_script_is_that_of_its_pyflink_unless_one_is_named(pythons, tmp_path):
    _, _, environment = pythons("", "1.20.5")
    named = python_with("2.0.2", tmp_path / "named")
    folders = {}
    for version, folder in {"1.20.5": tmp_path / "bin", "2.0.2": tmp_path, "2.1.0": tmp_path}.items():
        folders[version] = folder / f"pyflink-{version}"
        (folders[version] / "lib").mkdir(parents=True)
        (folders[version] / "lib" / f"flink-dist-{version}.jar").touch()
    assert find_flink_home_of_script(None, environment, {}).folder == folders["1.20.5"]
    by_variable = find_flink_home_of_script(None, environment | {CLIENT_EXECUTABLE: named}, {})
    by_option = find_flink_home_of_script(None, environment, {CLIENT_OPTION: named})
    assert by_variable == by_option == (folders["2.0.2"], "2.0.2", *by_option[2:])
    given = environment | {"FLINK_HOME": str(folders["2.1.0"])}
    assert find_flink_home_of_script(None, given, {}).version == "2.1.0"
    assert find_flink_home_of_script(folders["2.0.2"], given, {}).version == "2.0.2"


def test_a_pyflink_has_the_jars_where_the_extra_is_missing(pythons, tmp_path, monkeypatch):
    def no_jars():
        raise ConfigurationError("Flink's jars: not installed", "install them")

    monkeypatch.setattr("penstock.engine.flink.capture.program_command.flink_jars", no_jars)
    _, _, environment = pythons("", "1.20.5")
    with pytest.raises(
        ConfigurationError, match="Flink is required: neither --flink nor FLINK_HOME names one"
    ):
        find_flink_home(None, environment)
    (tmp_path / "bin" / "pyflink-1.20.5" / "lib").mkdir(parents=True)
    (tmp_path / "bin" / "pyflink-1.20.5" / "lib" / "flink-dist-1.20.5.jar").touch()
    assert find_flink_home(None, environment).version == "1.20.5"


@pytest.mark.parametrize("of_path", ["2.3.0", ""])
def test_functions_in_python_of_a_jar_get_the_same_python(home, pythons, tmp_path, of_path):
    """A jar that has none needs no PyFlink."""
    (tmp_path / "job.jar").touch()
    (tmp_path / "flink").mkdir()
    _, python, environment = pythons("", of_path)
    program = Program(tmp_path / "job.jar", ProgramKind.JAR, [], None, None, {})
    with_python = home._replace(opt=[Path("flink-python-2.3.0.jar")])
    command = program_command(program, with_python, "java", environment, tmp_path / "flink")
    assert command.environment.get(CLIENT_EXECUTABLE) == (python if of_path else None)
    assert (command.no_python is None) == bool(of_path)
