"""What PyFlink scripts import is there, also for plain python once `pyflink` means Penstock."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from penstock.engine.pyflink_names import uninstall
from penstock.engine.pyflink_names.modules import penstock_module
from tests.pyflink.test_cases import HERE, scripts

EXAMPLES = sorted((HERE / "examples").rglob("*.py"))
SCRIPTS = {
    **scripts(HERE),
    **scripts(HERE / "more"),
    **{str(path.relative_to(HERE)): path.read_text() for path in EXAMPLES},
}


def imported(script):
    """(module, name) of everything that a script takes from PyFlink; both lists may be empty."""
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyflink":
            for name in node.names:
                yield node.module, name.name


def test_every_import_works_under_engine():
    wanted = {one for script in SCRIPTS.values() for one in imported(script)}
    assert len(wanted) > 70
    for module, name in sorted(wanted):
        assert hasattr(penstock_module(module), name), f"{module} has no {name}"


@pytest.mark.parametrize("name", ["map_filter_flat_map", "tumbling_window_reduce"])
def test_a_script_runs_under_plain_python(spark, tmp_path, monkeypatch, capsys, name):
    script = f"from penstock.engine.pyflink_names import install\ninstall()\n{SCRIPTS[name]}"
    path = Path(tmp_path / "script.py")
    path.write_text(script)
    monkeypatch.setattr(sys, "argv", [str(path), "STREAMING", "1"])
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        uninstall()
    assert capsys.readouterr().out.count("RESULT") > 3
