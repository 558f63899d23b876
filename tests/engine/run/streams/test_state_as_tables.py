"""The state of a stream as tables: by the library, by commands, by SQL."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock.connectors import JsonLinesSink
from penstock.engine.commands.main import app
from penstock.plans.errors import ConfigurationError, StoreError
from tests.engine.run.streams.batches_in_process import Stream, in_process
from tests.engine.run.streams.test_batches_of_streams import CLICKS, COUNT, Count, counts_and_windows

__all__ = ["in_process"]
pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    Stream(tmp_path, counts_and_windows(tmp_path), lag=2000).batches(CLICKS[:2], CLICKS[2:6], CLICKS[6:])
    return tmp_path / "state"


def test_states_are_tables_of_their_declared_types(state):
    opened = penstock.open_state(state)
    assert (opened.version, opened.batch_id) == (3, 2)
    counts = opened.table("counts")
    assert {row["key"]: row["value"] for row in counts.to_pylist()} == {"ann": 4, "bob": 2, "cat": 1}
    assert str(counts.schema.field("value").type) == "int64"
    windows = opened.table("window-contents")
    (row,) = windows.to_pylist()
    assert row["namespace"] == {"start": 20_000, "end": 30_000}
    assert row["value"] == [{"user": "ann", "amount": 1, "at": 26_000}]
    earlier = penstock.open_state(state, version=1)
    assert {row["key"]: row["value"] for row in earlier.table("counts").to_pylist()} == {"ann": 1, "bob": 1}
    listed = {row["state"]: row["type"] for row in opened.tables().to_pylist()}
    assert listed["counts"] == "Long"
    assert listed["window-contents"] == "List(Row(user: String, amount: Long, at: Long))"
    timers = opened.table("event_timers", operator=windows["operator_id"][0].as_py())
    assert timers["time"].to_pylist() == [29_999]


def test_what_is_missing_is_named(state, tmp_path):
    opened = penstock.open_state(state)
    with pytest.raises(ConfigurationError, match=r"no state 'count'[\s\S]*counts"):
        opened.table("count")
    with pytest.raises(ConfigurationError, match="several operators"):
        opened.table("event_timers")
    with pytest.raises(StoreError, match="has no version 9"):
        penstock.open_state(state, version=9)
    with pytest.raises(StoreError, match="is not the state of a stream"):
        penstock.open_state(tmp_path)


def test_commands_show_compare_and_query_versions(state):
    def printed(*arguments: str) -> list[list[str]]:
        called = CliRunner().invoke(app, list(arguments))
        assert called.exit_code == 0, called.output
        return [line.split("\t") for line in called.stdout.splitlines()]

    first, columns, *rows = printed("state", "show", str(state))
    assert first == ["version 3 after batch 2 of job 'Flink Streaming Job', watermark 23999"]
    assert columns[:4] == ["operator", "uid", "state", "kind"]
    assert ["KEYED PROCESS", "", "counts", "value", "String", "Long"] in [row[:6] for row in rows]
    assert sorted(row[1:] for row in printed("state", "show", f"{state}@1", "counts")) == [
        ["ann", "1"],
        ["bob", "1"],
        ["key", "value"],
    ]
    names, *versions = printed("state", "list", str(state))
    assert [dict(zip(names, row, strict=True))["rows"] for row in versions] == ["2", "4", "1"]
    assert [row[5] for row in versions] == ["-1001", "11999", "23999"]
    changes = printed("state", "diff", f"{state}@1", f"{state}@3")
    assert ["KEYED PROCESS", "counts", "1", "0", "2"] in changes
    query = "select key, value from counts order by key"
    assert printed("sql", str(state), query) == [["key", "value"], ["ann", "4"], ["bob", "2"], ["cat", "1"]]
    assert ["counts", "value", "int64"] in printed("sql", f"{state}@3", "--tables")


def test_a_damaged_segment_is_named(tmp_path):
    def build(clicks):
        clicks.process(Count(), COUNT).sink_to(JsonLinesSink(str(tmp_path / "counts")))

    stream = Stream(tmp_path, build)
    stream.batch(CLICKS[:2], 0)
    for segment in (tmp_path / "state" / "segments").iterdir():
        segment.write_bytes(segment.read_bytes()[:-8])
    with pytest.raises(Exception, match="the state is damaged"):
        stream.batch(CLICKS[:2], 1)
    with pytest.raises(StoreError, match="the state is damaged"):
        penstock.open_state(tmp_path / "state").table("counts")
