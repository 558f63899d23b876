"""A user's own plans.py, operators/ or engine.py is named, not silently imported."""

import subprocess
import sys
from pathlib import Path

import pytest

import engine
from penstock_guard import PACKAGES, require_own_packages

ROOT = Path(engine.__file__).parents[1]
SCRIPT = f"import sys; sys.path.append({str(ROOT)!r})\nimport {{imported}}\nprint('imported')\n"


def run_script(folder: Path, imported: str) -> subprocess.CompletedProcess[str]:
    script = folder / "my_job.py"
    script.write_text(SCRIPT.format(imported=imported))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=folder, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("imported", "taken"),
    [
        ("engine", "plans"),
        ("engine", "operators"),
        ("plans", "operators"),
        ("operators", "plans"),
        ("plans", "engine"),
    ],
)
@pytest.mark.parametrize("as_package", [False, True])
def test_foreign_name_beside_the_script_is_refused(tmp_path, imported, taken, as_package):
    if as_package:
        (tmp_path / taken).mkdir()
        culprit = tmp_path / taken
        (culprit / "__init__.py").write_text("print('executed')")
    else:
        culprit = tmp_path / f"{taken}.py"
        culprit.write_text("print('executed')")
    done = run_script(tmp_path, imported)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert f"the name '{taken}' is taken: Python finds {culprit}" in done.stderr
    assert f"Rename {culprit.name}" in done.stderr
    assert "executed" not in done.stdout


@pytest.mark.parametrize("imported", PACKAGES)
def test_folder_without_init_does_not_hide_a_package(tmp_path, imported):
    for name in PACKAGES:
        (tmp_path / name).mkdir()
    assert run_script(tmp_path, imported).stdout == "imported\n"


def test_name_already_loaded_from_elsewhere_is_refused(monkeypatch, tmp_path):
    foreign = type(sys)("plans")
    foreign.__file__ = str(tmp_path / "plans.py")
    monkeypatch.setitem(sys.modules, "plans", foreign)
    with pytest.raises(ImportError, match=r"plans\.py instead of Penstock's package"):
        require_own_packages(engine.__file__)
