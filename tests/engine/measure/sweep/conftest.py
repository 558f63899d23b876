"""A folder with a grid and what it names."""

import json
from pathlib import Path

import pytest

from tests.engine.measure.sweep.grids import GRID, PLANNERS, topology


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "given.jsonl").write_text(
        json.dumps(topology("a", 2)) + "\n" + json.dumps(topology("b")) + "\n"
    )
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "of_tests.py").write_text(PLANNERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path
