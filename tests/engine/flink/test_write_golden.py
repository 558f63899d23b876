"""Golden data that is written anew is the same."""

import gzip
import json
from pathlib import Path

import pytest

from penstock.engine.flink.plan_with_flink import FlinkPlanResult
from tests.write_golden import write_golden

SHAPES = Path(__file__).parents[2] / "golden" / "shapes.jsonl.gz"


@pytest.mark.flink
def test_plans_made_anew_are_the_same(tmp_path):
    lines = gzip.decompress(SHAPES.read_bytes()).decode().splitlines()[:3]
    (tmp_path / "golden.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert write_golden(tmp_path / "golden.jsonl.gz", tmp_path / "anew.jsonl.gz") == 3
    anew = gzip.decompress((tmp_path / "anew.jsonl.gz").read_bytes()).decode().splitlines()
    assert list(map(json.loads, anew)) == list(map(json.loads, lines))


def test_what_flink_has_no_api_for_is_not_written(tmp_path, monkeypatch):
    unsupported = {"name": "old", "error_stage": "unsupported", "error": "", "message": "Flink has no select"}
    planned = FlinkPlanResult([unsupported], {}, [], 1, 1, None)
    monkeypatch.setattr("tests.write_golden.plan_with_flink", lambda lines: planned)
    (tmp_path / "old.jsonl").write_text('{"name": "old"}')
    with pytest.raises(ValueError, match="old: Flink has no select"):
        write_golden(tmp_path / "old.jsonl", tmp_path / "golden.jsonl.gz")
    assert not (tmp_path / "golden.jsonl.gz").exists()
