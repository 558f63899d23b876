"""The files of a stream's state: copies on a machine, damage, leftovers."""

import errno
import json
import os
import pickle
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.common import Row, Types
from penstock.connectors import JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from penstock.engine.run.streams import run_batch
from penstock.operators.connectors.state_sink import read_manifest, segments_of
from penstock.operators.state import stored_state
from penstock.operators.state.state_segments import SEGMENTS, _digest
from penstock.plans.errors import PenstockError, StoreError
from tests.engine.run.streams.batches_in_process import CLICK, Stream, in_process, lines
from tests.engine.run.streams.killed_batches import faults, live
from tests.engine.run.streams.remote_files import SCHEME, Far, far_files
from tests.engine.run.streams.test_batches_of_streams import COUNT, Count

__all__ = ["in_process"]
pytestmark = pytest.mark.usefixtures("in_process")

USERS = [(f"user{number}", 1, number) for number in range(40)]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    """Copies of segments go into a folder of the test."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def counted(folder: Path) -> Any:
    def build(clicks):
        clicks.process(Count(), COUNT).uid("counts").sink_to(JsonLinesSink(str(folder / "counts")))

    return build


def copies(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "tmp").glob("penstock-state-*/*/*.arrow")}


def test_a_store_that_is_far_is_read_once_by_each_machine(tmp_path, monkeypatch):
    far = Far()
    with far_files(far):
        stream = Stream(tmp_path, counted(tmp_path), keep=2, state=f"{SCHEME}{tmp_path}/state")
        stream.batches(USERS, USERS)
        reads = {path for (name, path) in far.paths if name in ("open", "read") and SEGMENTS in path}
        assert reads == set()
        before = copies(tmp_path)
        other = tmp_path / "tmp" / f"penstock-state-{os.geteuid()}" / "of another store"
        other.mkdir()
        (other / "000000000001-copy.arrow").touch()
        for name in list(before)[:2]:
            before[name].unlink()
        list(before.values())[2].write_bytes(b"damaged")
        stream.batches(USERS, first=2)
        assert {Path(path).name for (name, path) in far.paths if name == "open" and SEGMENTS in path} == set(
            list(before)[:3]
        )
        monkeypatch.setattr(stored_state, "_MOST_SEGMENTS", 2)
        for number in range(3, 6):
            stream.batch(USERS, number)
        rows = lines(tmp_path / "counts")
        assert rows == sorted(
            [[user, count] for user, _, _ in USERS for count in range(1, 7)], key=json.dumps
        )
        # those of the last version but one, which the last batch has read, and those that it has written
        needed = set().union(
            *(segments_of(read_manifest(stream.options.folder, number)) for number in (5, 6))
        )
        assert copies(tmp_path).keys() - {"000000000001-copy.arrow"} == needed
        assert (other / "000000000001-copy.arrow").exists()
        for name in needed:
            copies(tmp_path)[name].unlink()
        assert penstock.open_state(stream.options.folder).table("counts")["value"].to_pylist() == [6] * 40
        assert copies(tmp_path).keys() == {"000000000001-copy.arrow"}  # who only reads leaves none
        os.utime(other, (0, 0))
        stream.batch(USERS, 6)
        assert not other.exists()


def test_a_machine_without_room_for_copies_reads_from_the_store(tmp_path, monkeypatch):
    (tmp_path / "tmp").rmdir()
    with far_files(Far()):
        stream = Stream(tmp_path, counted(tmp_path), state=f"{SCHEME}{tmp_path}/state")
        stream.batches(USERS[:2], USERS[:2])
    assert lines(tmp_path / "counts") == [["user0", 1], ["user0", 2], ["user1", 1], ["user1", 2]]


class Opened:
    """An object whose pickle makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


class Kept(KeyedProcessFunction):
    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, click, ctx):
        self.kept.update((self.kept.value() or ()) + (click.amount,))
        yield click.user, len(self.kept.value())


@pytest.mark.parametrize("knows", ["the file", "the manifest"])
def test_pickles_that_the_stream_has_not_written_are_refused_before_they_are_loaded(tmp_path, knows):
    def build(clicks):
        clicks.process(Kept(), COUNT).sink_to(JsonLinesSink(str(tmp_path / "kept")))

    stream = Stream(tmp_path, build, parallelism=1)
    stream.batch(USERS[:1], 0)
    folder = tmp_path / "state"
    (segment,) = (folder / SEGMENTS).iterdir()
    data = segment.read_bytes()
    bad = pickle.dumps(Opened(tmp_path / "x"), 0)
    batch = pa.ipc.open_file(data).get_batch(0)
    columns = {name: batch.column(name) for name in batch.schema.names} | {
        "value": pa.array([bad], pa.binary())
    }
    sink = pa.BufferOutputStream()
    made = pa.RecordBatch.from_pydict(columns)
    with pa.ipc.new_file(sink, made.schema) as writer:
        writer.write_batch(made)
    forged = sink.getvalue()
    if knows == "the file":
        segment.write_bytes(forged)
    else:
        name = f"{segment.name.split('-')[0]}-{_digest(forged)}.arrow"
        (folder / SEGMENTS / name).write_bytes(forged)
        (manifest,) = (folder / "versions").iterdir()
        text = manifest.read_text().replace(segment.name, name)
        manifest.write_text(text.replace(f'"size": {len(data)}', f'"size": {forged.size}'))
    with pytest.raises(Exception, match="KEYED PROCESS") as caught:
        stream.batch(USERS[:1], 1)
    expected = "must have" if knows == "the file" else "not the segment that this stream has written"
    assert expected in str(caught.value)
    assert "the state is damaged" in str(caught.value)
    assert not (tmp_path / "x").exists()
    stored = penstock.open_state(folder)
    if knows == "the manifest":
        assert stored.table("kept")["value"].to_pylist() == [bad]  # bytes, not loaded


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    stream = Stream(tmp_path, counted(tmp_path), keep=1)
    stream.batch(USERS[:2], 0)
    segments, versions = tmp_path / "state" / SEGMENTS, tmp_path / "state" / "versions"
    (segments / ".000000000002-0123").touch()
    (segments / "000000000002-0123.arrow").touch()
    (segments / ".000000000009-0123").touch()
    for name, seconds in ((".0.unfinished", 0), (".1.unfinished", 2_000_000_000)):
        (versions / name).touch()
        os.utime(versions / name, (seconds, seconds))
    stream.batch(USERS[:2], 1)
    needed = segments_of(read_manifest(str(tmp_path / "state"), 2))
    assert {path.name for path in segments.iterdir()} == needed | {".000000000009-0123"}
    assert {path.name for path in versions.iterdir()} == {"000000000002.json", ".1.unfinished"}


# Keys of all types, and refusals


KEYS: dict[str, tuple[Any, list[Any]]] = {
    "text": (Types.STRING(), [None, "", "a" * 100_000, "a\x00b\x1b[31m", "日本"]),
    "float": (Types.DOUBLE(), [None, float("nan"), 0.0, -0.0, 1.0, float("inf")]),
    "row": (
        Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]),
        [Row(a="x", b=1), Row(a=None, b=None)],
    ),
    "tuple": (
        Types.TUPLE([Types.LONG(), Types.TUPLE([Types.DOUBLE()])]),
        [(1, (1.0,)), (1, (float("nan"),))],
    ),
    "list": (Types.LIST(Types.INT()), [[1, 2], [], [1, None]]),
    "pickled": (None, [None, 1, 1.0, True, "1", Row(a=1), Row(1), {1, 2}]),
}


def test_keys_of_all_types_find_their_state_and_timers_again(tmp_path):
    class CountAndFire(Count):
        def process_element(self, click, ctx):
            ctx.timer_service().register_event_time_timer(10_000)
            yield from super().process_element(click, ctx)

        def on_timer(self, timestamp, ctx):
            yield "timer", self.count.value()

    def build(clicks):
        plain = clicks.map(lambda click: click, CLICK)
        for name, (key_type, keys) in KEYS.items():
            some = plain.filter(lambda click, keys=keys: click.amount < len(keys))
            keyed = some.key_by(lambda click, keys=keys: keys[click.amount], key_type)
            counted = keyed.process(CountAndFire(), COUNT).uid(name)
            counted.sink_to(JsonLinesSink(str(tmp_path / name)))

    rows = [("user", number, number) for number in range(8)]
    Stream(tmp_path, build).batches(rows, rows, rows, [("user", 99, 20_000)])
    state = penstock.open_state(tmp_path / "state")
    for name, (_, keys) in KEYS.items():
        counts = [["user", count] for count in (1, 2, 3) for _ in keys]
        assert lines(tmp_path / name) == sorted([*counts, *(["timer", 3] for _ in keys)], key=json.dumps), (
            name
        )
        assert state.table("counts", operator=name)["value"].to_pylist() == [3] * len(keys), name


def test_states_that_cannot_be_used_are_refused_by_name(tmp_path):
    def refused(*texts: str, folder: str, batch: int = 2, **settings: Any) -> None:
        stream = Stream(tmp_path, counted(tmp_path), state=tmp_path / folder, **settings)
        with pytest.raises(PenstockError) as caught:
            stream.batch(USERS[:2], batch)
        for text in (folder, *texts):
            assert text in str(caught.value)
        assert caught.value.hint

    def made(folder: str) -> Path:
        stream = Stream(tmp_path, counted(tmp_path), state=tmp_path / folder, query="q")
        stream.batches(USERS[:2], USERS[:2])
        return Path(tmp_path, folder)

    (tmp_path / "a file").touch()
    refused("non-directory", folder="a file")
    refused("the state of the batches before is missing", "batch 2 of query q", folder="gone", query="q")
    manifest = made("cut") / "versions" / "000000000002.json"
    manifest.write_text(manifest.read_text()[:50])
    refused("000000000002.json is damaged", folder="cut", query="q")
    (made("lacking") / "versions" / "000000000002.json").write_text('{"version": 2, "format": 1}')
    refused("000000000002.json is damaged: it lacks batch_id", folder="lacking", query="q")
    (made("key") / "key").write_text('"zz"')
    refused("key is damaged", folder="key", query="q")
    (made("open") / "versions" / "000000000002.json").chmod(0o666)
    refused("others may write it", folder="open", query="q")
    (made("gap") / "versions" / "000000000002.json").unlink()
    refused("the rows between are missing", folder="gap", query="q")
    made("other")
    refused("batch 1 of query q", "batch 0 of query r", folder="other", batch=0, query="r")


def test_a_full_disk_names_the_operator_and_the_file(tmp_path, monkeypatch):
    stream = Stream(tmp_path, counted(tmp_path), parallelism=1)
    stream.batch(USERS[:2], 0)

    def full(*paths: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", full)
        with pytest.raises(Exception, match=r"KEYED PROCESS.*writing its state.*segments/0+2-") as caught:
            stream.batch(USERS[:2], 1)
    assert "No space left on device" in str(caught.value)
    assert [path.name for path in (tmp_path / "state" / SEGMENTS).iterdir() if path.name[0] == "."] == []
    stream.batch(USERS[:2], 1)
    assert lines(tmp_path / "counts") == [["user0", 1], ["user0", 2], ["user1", 1], ["user1", 2]]


def test_a_version_that_was_removed_since_it_was_opened_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_state, "_CHANGES_PER_SNAPSHOT", 1)
    stream = Stream(tmp_path, counted(tmp_path), keep=1)
    stream.batch(USERS[:2], 0)
    opened = penstock.open_state(tmp_path / "state")
    for number in range(1, 4):
        stream.batch(USERS[:2], number)
    with pytest.raises(StoreError, match="version 1 has been removed since it was opened"):
        opened.table("counts")


@pytest.mark.parametrize("meanwhile", ["_run", "commit_run"])
def test_of_two_drivers_of_a_stream_one_makes_a_batch(tmp_path, monkeypatch, meanwhile):
    one, other = (Stream(tmp_path, counted(tmp_path), query="q") for _ in range(2))
    one.batch(USERS[:2], 0)
    step = getattr(run_batch, meanwhile)
    made: list[bool] = []

    def step_after_the_other_driver(*arguments: Any) -> Any:
        if not made:
            made.append(True)
            other.batch(USERS[:2], 1)
        return step(*arguments)

    monkeypatch.setattr(run_batch, meanwhile, step_after_the_other_driver)
    with pytest.raises(StoreError, match="another driver runs the same stream"):
        one.batch(USERS[:2], 1)
    assert one.batch(USERS[:2], 1) is None
    assert lines(tmp_path / "counts") == [["user0", 1], ["user0", 2], ["user1", 1], ["user1", 2]]
    assert list(tmp_path.rglob(".penstock*")) == []


@pytest.mark.slow
def test_a_driver_that_is_killed_at_any_call_loses_and_repeats_nothing(tmp_path):
    draw, batch = Random(62), 0
    for _ in range(12):
        batch = live(tmp_path, batch, batch + 1, draw.randrange(1, 200))
    last = batch + 4
    assert live(tmp_path, batch, last, 0) == last + 1
    assert faults(tmp_path, last + 1) == []
