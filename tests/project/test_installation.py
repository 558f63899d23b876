"""The name of the distribution: every line that installs Penstock works, and another project's is named."""

import re
import tomllib
from pathlib import Path

import pytest

import penstock
from penstock.engine.commands.doctor import diagnose
from penstock.engine.commands.explain_error import explain_error
from penstock.plans import installation
from penstock.plans.installation import (
    install_command,
    other_distribution,
    own_requirements,
    own_version,
)

ROOT = Path(penstock.__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])

INSTALLS = re.compile(r"pip(?:3)? install\s+([^`\n]*)")
OURS = re.compile(r"(?:--find-links ci/wheels )?'(?:penstock-spark|\.)\\*\[([a-z,]+)\\*\]'|\.(?![\w/])")
_OTHERS = "|".join(
    ("deltalake", "polars", "pandas", "delta-spark", "apache-flink", "duckdb", "'duckdb", "chispa")
)
OTHERS = re.compile(rf"(?:--force-reinstall )?(?:{_OTHERS}|\{{_PACKAGE\}})")


def texts():
    """Files in which users read how to install: documentation, and what the code says."""
    for folder, pattern in (("docs", "*.md"), ("docs", "*.ipynb"), (".", "*.md"), (".", "Makefile")):
        yield from (ROOT / folder).glob(pattern)
    for package in ("engine", "plans", "operators", "penstock"):
        yield from (ROOT / package).rglob("*.py")
        yield from (ROOT / package).rglob("*.j2")


def test_all_lines_that_install_something_are_of_a_form_that_works():
    wrong, ours = [], 0
    for path in texts():
        if path.name in ("CHANGELOG.md", "installation.py"):
            continue
        for what in INSTALLS.findall(path.read_text(encoding="utf-8")):
            known = OURS.match(what)
            ours += known is not None
            if known is None and OTHERS.match(what) is None:
                wrong.append(f"{path.relative_to(ROOT)}: pip install {what}")
            elif known and known[1] and not set(known[1].split(",")) <= EXTRAS:
                wrong.append(f"{path.relative_to(ROOT)}: no such extra: {what}")
    assert wrong == []
    assert ours > 10
    said = "".join(path.read_text(encoding="utf-8") for path in texts())
    for extra in re.findall(r"install_command\(\"(\w+)\"\)|install_command\('(\w+)'\)", said):
        assert set(filter(None, extra)) <= EXTRAS


def test_extras_that_users_choose_are_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {extra for extra in EXTRAS if f"| `{extra}` |" in readme} == EXTRAS


def test_the_command_for_extras_names_the_distribution():
    assert PROJECT["name"] == installation.DISTRIBUTION == "penstock-spark"
    assert install_command("session", "graphs") == "pip install 'penstock-spark[session,graphs]'"


def test_a_checkout_that_is_not_installed_knows_its_version(monkeypatch):
    monkeypatch.setattr(installation, "DISTRIBUTION", "penstock-of-nobody")
    assert own_version.__wrapped__() == PROJECT["version"]
    assert "pyspark==4.2.0" in own_requirements()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs what says that it is the distribution `penstock` 0.1.0, with these entry points."""

    def install(entry_points: str) -> None:
        folder = tmp_path / "penstock-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: penstock\nVersion: 0.1.0\n")
        (folder / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


SAID = "the distribution penstock 0.1.0 is another project's, whose package has the same name"
MENDED = "pip uninstall -y penstock penstock-spark, and install Penstock again"


def test_another_project_s_penstock_is_named(installed, monkeypatch):
    installed("")
    assert other_distribution() == f"{SAID}: {MENDED}"
    (finding,) = (finding for finding in diagnose() if finding.name == "Penstock")
    assert (finding.installed, finding.problem) == (f"{own_version()} ({ROOT})", f"{SAID}: {MENDED}")
    monkeypatch.setattr(installation, "penstock", type("Other", (), {}))
    assert other_distribution() == f"{SAID}; `import penstock` imports that one: {MENDED}"
    said = explain_error(AttributeError("module 'penstock' has no attribute 'plan'"))
    assert said is not None
    assert said[0].endswith(f"  hint: {SAID}; `import penstock` imports that one: {MENDED}")


def test_ours_under_its_former_name_is_not_another_one(installed):
    installed("[console_scripts]\npenstock = penstock.engine.commands.main:main\n")
    assert other_distribution() is None
