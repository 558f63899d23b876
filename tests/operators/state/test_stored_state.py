"""State in files: changes as segments, merges, lifetimes, equality of columns, timers."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.common import Row, Time, Types
from penstock.datastream import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.state import StateTtlConfig
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.serialized_keys import dictionary_key
from penstock.operators.connectors.state_sink import make_store, store_key
from penstock.operators.state import stored_state
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.state_segments import SegmentStore, equal_rows
from penstock.operators.state.stored_state import OperatorRecord, StoredState

HASH_ALIKE = ("Aa", "BB")  # of equal hashCode in Java


class Store:
    """The state of one operator, version after version."""

    def __init__(self, folder: Any, key_type: Any = None) -> None:
        self.folder, self.key_type = str(folder), key_type
        make_store(self.folder)
        self.tables: Any = {}
        self.version = 0
        self.text: str | None = None
        self.now = 1_000_000

    def batch(self, run: Any) -> Any:
        """Let `run` use the backend of a new version; return its tables."""
        self.version += 1
        record = OperatorRecord(
            operator_id="id",
            uid=None,
            name="operator",
            max_parallelism=128,
            key_type=self.key_type,
            key_text=self.text,
            tables=self.tables,
        )
        stored = StoredState(record, SegmentStore(self.folder, self.version, store_key(self.folder)), 0, 128)
        context = OperatorContext(stored_state=stored, processing_time=lambda: self.now)
        backend = KeyedStateBackend(context)
        run(backend)
        written = backend.written_tables()
        self.tables, self.text = {(0, 128): written}, stored.key_form.text
        backend.close()
        return written


def use(backend: KeyedStateBackend, key: Any) -> None:
    backend.load({key})
    backend.key = key


@pytest.mark.parametrize("key_type", [Types.STRING(), None])
def test_only_changed_entries_are_written(tmp_path, key_type):
    store = Store(tmp_path, key_type)
    descriptor = ValueStateDescriptor("value", Types.LONG())

    def first(backend):
        for number, key in enumerate(("a", "b", "c", *HASH_ALIKE)):
            use(backend, key)
            backend.state(descriptor).update(number)

    def second(backend):
        state = backend.state(descriptor)
        use(backend, "a")
        assert state.value() == 0
        use(backend, "b")
        state.update(state.value())
        use(backend, "c")
        state.clear()
        use(backend, "BB")
        assert state.value() == 4
        state.update(40)

    store.batch(first)
    (table,) = store.batch(second)
    assert [segment.rows for segment in table.segments] == [5, 2]  # c is deleted, BB has changed

    def third(backend):
        state = backend.state(descriptor)
        found = []
        for key in ("a", "b", "c", *HASH_ALIKE, "d"):
            use(backend, key)
            found.append(state.value())
        assert found == [0, 1, None, 3, 40, None]

    (unchanged,) = store.batch(third)
    assert unchanged.segments == table.segments


@pytest.mark.parametrize("key_type", [Types.STRING(), None])
def test_random_changes_over_many_versions(tmp_path, key_type, monkeypatch):
    monkeypatch.setattr(stored_state, "_MOST_SEGMENTS", 6)
    monkeypatch.setattr(stored_state, "_CHANGES_PER_SNAPSHOT", 2)
    store, random = Store(tmp_path, key_type), Random(7)
    keys = [*HASH_ALIKE, *(f"key{number}" for number in range(30))]
    expected: dict[Any, Any] = {}
    descriptor = MapStateDescriptor("maps", Types.STRING(), Types.LIST(Types.DOUBLE()))

    def change(backend):
        state = backend.state(descriptor)
        for key in random.sample(keys, 6):
            use(backend, key)
            assert dict(state.items()) == expected.get(key, {})
            if random.random() < 0.2:
                state.clear()
                expected.pop(key, None)
                continue
            name, value = random.choice("xyz"), [random.random(), None]
            state.put(name, value)
            expected.setdefault(key, {})[name] = value

    for _ in range(40):
        (table,) = store.batch(change)
        assert len(table.segments) <= 6

    def check(backend):
        state = backend.state(descriptor)
        backend.load(set(keys))
        for key in keys:
            backend.key = key
            assert dict(state.items()) == expected.get(key, {})

    store.batch(check)


def test_expired_entries_leave_the_files_when_segments_are_merged(tmp_path, monkeypatch):
    store = Store(tmp_path, Types.LONG())
    config = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    value, listed = ValueStateDescriptor("value", Types.STRING()), ListStateDescriptor("list", Types.BYTE())
    for descriptor in (value, listed):
        descriptor.enable_time_to_live(config)

    def add(backend):
        states = backend.state(value), backend.state(listed)
        use(backend, store.version)
        states[0].update("x")
        states[1].add(-5)

    def clock() -> int:
        return store.now * 1_000_000

    monkeypatch.setattr("penstock.operators.state.stored_state.time.time_ns", clock)
    tables: Any = ()
    for _ in range(11):
        tables = store.batch(add)
        store.now += 30
    # at the merge, which version 5 makes, entries of 100 ms before and earlier are gone
    assert [[segment.rows for segment in table.segments] for table in tables] == [[4] + [1] * 6] * 2

    def read(backend):
        use(backend, 11)
        assert (backend.state(value).value(), list(backend.state(listed).get())) == ("x", [-5])

    store.batch(read)


def test_rows_are_equal_bit_by_bit():
    def equal(left, right, kind):
        return equal_rows(pa.array(left, kind), pa.array(right, kind)).tolist()

    nan = float("nan")
    assert equal([0.0, 0.0, nan, None, 1.0], [0.0, -0.0, nan, None, None], pa.float64()) == [
        True,
        False,
        True,
        True,
        False,
    ]
    lists = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    one = {"a": 1, "b": "x"}
    assert equal([[one], [one, one], [], None], [[one], [one], [], []], lists) == [True, False, True, False]
    assert equal([[one], [one]], [[{"a": 1, "b": None}], [one]], lists) == [False, True]
    maps = pa.map_(pa.string(), pa.list_(pa.int8()))
    assert equal([[("k", [1, 2])], [("k", [])]], [[("k", [1, 3])], [("k", [])]], maps) == [False, True]
    assert equal_rows(pa.array([1]), pa.array(["1"])).tolist() == [False]
    assert equal_rows(pa.array([], pa.int8()), pa.array([], pa.int8())).dtype == np.bool_


def test_rows_and_pickles_come_back_as_they_were(tmp_path):
    store = Store(tmp_path)
    row = ValueStateDescriptor("row", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())]))
    free = ValueStateDescriptor("free", Types.PICKLED_BYTE_ARRAY())
    key = dictionary_key((1, 1.0))

    def write(backend):
        states = backend.state(row), backend.state(free)
        use(backend, key)
        states[0].update(Row(a=1, b=["x", None]))
        states[1].update({"any": {1, 2}})

    def read(backend):
        states = backend.state(row), backend.state(free)
        use(backend, key)
        assert states[0].value() == Row(a=1, b=["x", None])
        assert states[1].value() == {"any": {1, 2}}

    tables = store.batch(write)
    assert all(segment.mac is not None for table in tables for segment in table.segments)
    store.batch(read)
    (tmp_path / "key").unlink()
    make_store(str(tmp_path))
    with pytest.raises(ValueError, match="is not the segment that this stream has written"):
        store.batch(read)


@pytest.mark.parametrize(
    ("keys", "touched", "batches", "times"),
    [(1_000_000, 100_000, 400, 1.3), (1_000_000, 1_000_000, 50, 1.1), (1_000_000, 50_000, 800, 1.55)],
)
def test_merges_write_little_beside_the_changes(keys, touched, batches, times):
    rows, written, most = [keys], 0, 0
    for _ in range(batches):
        start = stored_state._first_to_merge([*rows, touched])
        rows = (
            [*rows[:start], min(keys, sum(rows[start:]) + touched)] if start is not None else [*rows, touched]
        )
        written += rows[-1]
        most = max(most, sum(rows))
    assert written <= times * touched * batches
    assert most <= 6 * keys
    assert len(rows) <= 40
