"""The record of each stream, and how `penstock list` shows it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.machine.folders import STATE_DIR, state_folder
from penstock.engine.run.streams.stream_records import (
    MOST_LISTED,
    RECENT,
    RecordedStream,
    list_streams,
    look_up_stream,
    progress_of_batch,
    time_text,
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "own"))


def manifest(version: int, watermark: int | None = 1_714_557_600_000) -> dict[str, Any]:
    """A version whose operator has two subtasks; a merged segment of version 1 belongs to both."""

    def part(first: int, *files: tuple[str, int, int]) -> dict[str, Any]:
        segments = [{"file": file, "rows": rows, "size": size} for file, rows, size in files]
        table = {
            "state": "counts",
            "namespaced": False,
            "kind": "value",
            "type": "Long",
            "segments": segments,
        }
        return {"first": first, "last": first + 64, "tables": [table]}

    old, new = (f"{1:012d}-a.arrow", 10, 1000), (f"{version:012d}-b.arrow", 3, 300)
    operator = {
        "operator_id": "0" * 32,
        "uid": "total",
        "name": "Total",
        "max_parallelism": 128,
        "key_type": "String",
        "parts": [part(0, old, new), part(64, old)],
    }
    return {
        "version": version,
        "batch_id": version - 1,
        "query": "0f3a",
        "job": "clicks",
        "started_at": 1_714_557_601.5,
        "run_seconds": 0.2,
        "rows": 40,
        "operators": [operator],
        "watermarks": {} if watermark is None else {"a": watermark, "b": watermark + 5},
    }


def progress(version: int, **changed: Any) -> dict[str, Any]:
    return progress_of_batch(manifest(version, **changed), {"addBatch": 150, "triggerExecution": 200})


def listed(*arguments: str) -> list[dict[str, str]]:
    called = CliRunner().invoke(app, ["list", "--streams", *arguments])
    assert called.exit_code == 0, called.output
    names, *rows = (line.split("\t") for line in called.stdout.splitlines())
    return [dict(zip(names, row, strict=True)) for row in rows]


def stream(folder: Path, *versions: int) -> RecordedStream:
    folder.mkdir()
    recorded = RecordedStream(str(folder), "clicks")
    for version in versions:
        recorded.begin(version - 1, "0f3a")
        recorded.end(progress(version))
    return recorded


def test_progress_has_the_fields_of_streaming_query_progress():
    assert progress(2) == {
        "id": "0f3a",
        "name": "clicks",
        "timestamp": "2024-05-01T10:00:01.500Z",
        "batchId": 1,
        "batchDuration": 200,
        "durationMs": {"addBatch": 150, "triggerExecution": 200},
        "eventTime": {"watermark": "2024-05-01T10:00:00.000Z"},
        "watermarkLagMs": 1500,
        "numInputRows": 40,
        "processedRowsPerSecond": 200.0,
        "stateVersion": 2,
        "stateBytes": 1300,
        "stateOperators": [
            {
                "operatorName": "Total",
                "operatorId": "0" * 32,
                "uid": "total",
                "numShufflePartitions": 2,
                "customMetrics": {"rowsWritten": 3, "bytesWritten": 300, "stateBytes": 1300},
            }
        ],
    }
    without = progress(2, watermark=None)
    assert (without["eventTime"], without["watermarkLagMs"]) == ({}, None)
    assert time_text(2**62) == str(2**62)


def test_streams_are_listed_with_their_last_batch(tmp_path):
    assert CliRunner().invoke(app, ["list", "--streams"]).stdout.startswith("no streams")
    recorded = stream(tmp_path / "state", 1, 2)
    row = {
        "state folder": str(tmp_path / "state"),
        "job": "clicks",
        "query": "0f3a",
        "state": "RUNNING",
        "batches": "2",
        "rows": "40",
        "watermark": "2024-05-01T10:00:00.000Z",
        "state bytes": "1,300",
    }
    assert listed() == listed("-r") == [row]
    assert "clicks" in CliRunner().invoke(app, ["list"]).stdout
    recorded.begin(2, "0f3a")
    recorded.fail("job 'clicks' failed in operator 'Total'")
    assert listed() == [{**row, "state": "FAILED"}]
    assert CliRunner().invoke(app, ["list", "--streams", "-r"]).stdout == "no streams are running\n"
    (known,) = json.loads(CliRunner().invoke(app, ["list", "--streams", "--json"]).stdout)
    assert (known["failure"], len(known["progress"])) == ("job 'clicks' failed in operator 'Total'", 2)
    recorded.begin(2, "0f3a")
    recorded.end(None)  # the batch was done before
    assert listed() == [row]
    (tmp_path / "state").rmdir()
    assert list_streams() == []


@pytest.mark.parametrize(("in_batch", "state"), [(True, "FAILED"), (False, "FINISHED")])
def test_a_driver_that_has_died_ends_its_stream(tmp_path, in_batch, state):
    recorded = stream(tmp_path / "state", 1)
    recorded.begin(1, "0f3a")
    record = replace(recorded._record, in_batch=in_batch, owner={**recorded._record.owner, "started": "0"})
    recorded._write(record)
    (known,) = list_streams()
    assert known.state == state
    assert (known.reason is None) == (not in_batch)
    if known.reason is not None:
        assert "within batch 1" in known.reason


def test_records_stay_few_and_short(tmp_path, monkeypatch):
    recorded = stream(tmp_path / "state", *range(1, RECENT + 5))
    (known,) = list_streams()
    assert [batch["batchId"] for batch in known.progress] == list(range(4, RECENT + 4))
    recorded.begin(99, None)
    recorded.fail("no")
    for number in range(MOST_LISTED):
        stream(tmp_path / f"state{number}", 1)
    assert len(list_streams()) == MOST_LISTED
    assert look_up_stream(known.stream_id) is None


def test_damaged_and_foreign_records_are_left_out(tmp_path):
    recorded = stream(tmp_path / "state", 1)
    folder = state_folder("streams")
    good = {"format": 1, **asdict(recorded._record)}
    damaged = ["{", "[]", "{}", json.dumps({**good, "format": 2}), json.dumps({**good, "more": 1})]
    for number, text in enumerate([*damaged, json.dumps(good)]):
        (folder / f"{number:032x}.json").write_text(text)
    (folder / "other.json").write_text(json.dumps(good))
    assert [record.folder for record in list_streams()] == [str(tmp_path / "state")]


def test_a_record_that_cannot_be_written_is_reported_once(tmp_path, monkeypatch, capfd):
    (tmp_path / "own").write_text("")
    stream(tmp_path / "state", 1, 2)
    assert capfd.readouterr().err.count("is not listed") == 1


def test_foreign_text_of_streams_reaches_no_terminal(tmp_path):
    recorded = stream(tmp_path / "state\x1b[2J", 1)
    recorded.begin(1, "\x1b]0;x\x07")
    recorded.fail("\x1b[31m")
    assert "\x1b" not in CliRunner().invoke(app, ["list", "--streams"]).stdout
