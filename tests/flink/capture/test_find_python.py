"""Which Python runs a PyFlink script."""

import sys
from pathlib import Path

import pytest

from penstock.engine.flink.capture.find_python import CLIENT_EXECUTABLE, find_python
from penstock.engine.flink.capture.flink_home import FlinkHome
from penstock.plans.errors import ConfigurationError


def python_with(version: str, path: Path) -> str:
    """A program that answers as a Python with this PyFlink does."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def home(tmp_path) -> FlinkHome:
    (tmp_path / "conf").mkdir()
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
    found = f"found {of_penstock} \\(none\\), {of_path} \\(2.2.0\\), allowed a Python that has PyFlink 2.3"
    with pytest.raises(ConfigurationError, match=found):
        find_python(home, environment, {})
    with pytest.raises(ConfigurationError, match=f"found {of_penstock} \\(none\\), allowed"):
        find_python(home, environment | {CLIENT_EXECUTABLE: of_penstock}, {})
    assert find_python(home, environment | {CLIENT_EXECUTABLE: of_path}, {}) == of_path


def test_flink_finds_one_where_it_is_told_or_brings_pyflink(home, pythons, tmp_path):
    _, _, environment = pythons("", "")
    assert find_python(home, environment, {"python.client.executable": "python3.9"}) is None
    configuration = tmp_path / "conf" / "config.yaml"
    configuration.write_text("python:\n  client:\n    executable: python3.9\n")
    assert find_python(home, environment, {}) is None
    configuration.unlink()
    (home.folder / "opt" / "python").mkdir(parents=True)
    (home.folder / "opt" / "python" / "pyflink.zip").touch()
    brings = python_with("", tmp_path / "bin" / "python")
    assert find_python(home, environment, {}) == brings
