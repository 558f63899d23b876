"""What happens to state that outgrows its memory."""

import random
import threading
from io import BytesIO

import pytest

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.entry_size import entry_bytes
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.state_table import SpilledEntries, dump_state, load_states
from penstock.operators.state.timer_queue import SpilledTimers


def test_only_some_keys_stay_in_memory():
    backend = KeyedStateBackend(OperatorContext(state_memory_bytes=100_000))
    table = backend.table("counts")
    counts: dict[int, int] = {}
    generator = random.Random(7)
    most = 0
    for _ in range(300):
        keys = [generator.randrange(20_000) for _ in range(100)]
        if backend.cold:
            backend.load(set(keys))
        for key in keys:
            counts[key] = table.entries[key] = table.entries.get(key, 0) + 1
        backend.relieve(len(keys), keys)
        most = max(most, len(table.entries))
    assert backend.cold
    assert most < 2000 < len(counts)
    backend.load(counts.keys())
    assert table.entries == counts
    backend.close()


def test_one_growing_list_is_noticed():
    backend = KeyedStateBackend(OperatorContext(state_memory_bytes=100_000))
    table = backend.table("lists")
    table.entries["k"] = [f"some text {number}" for number in range(2000)]
    backend.relieve(1000, ["k"])
    assert backend.cold


@pytest.mark.slow
def test_large_values_are_noticed_in_time():
    backend = KeyedStateBackend(OperatorContext(state_memory_bytes=64 << 20))
    table = backend.table("texts")
    most = 0
    for start in range(0, 3000, 100):
        keys = list(range(start, start + 100))
        table.entries.update((key, "x" * 100_000) for key in keys)
        most = max(most, len(table.entries))
        backend.relieve(100, keys)
    assert most < 700
    backend.load(range(3000))
    assert len(table.entries) == 3000
    backend.close()


def test_keys_of_equal_hash_share_a_row():
    assert hash(-1) == hash(-2)
    spilled = SpilledEntries()
    assert not spilled.has(0)
    spilled.put(0, {-1: "one"})
    spilled.put(0, {-2: "two", 3: "three"})
    assert spilled.take(0, [-2, 4]) == {-2: "two"}
    assert spilled.take(0, [-2, -1]) == {-1: "one"}
    assert spilled.take(0, [3]) == {3: "three"}
    assert spilled.take(0, [3, -1, -2]) == {}
    spilled.close()


def test_more_keys_than_are_looked_up_at_once():
    spilled = SpilledEntries()
    entries = {f"key {number}": number for number in range(25_000)}
    spilled.put(2, entries)
    assert spilled.take(2, list(entries)) == entries
    spilled.close()


def test_classes_and_functions_of_a_script_are_kept():
    class Local:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return type(other) is Local and self.value == other.value

        def __hash__(self):
            return 1

    value = {"object": Local([1]), "class": Local, "function": lambda x: x + 1, "method": len}
    [back] = _loaded(dump_state(value))
    assert back["object"] == value["object"]
    assert back["object"] is not value["object"]
    assert back["class"] is Local
    assert back["function"](1) == 2
    assert back["method"] is len


def test_state_that_cannot_be_pickled_is_named():
    with pytest.raises(TypeError, match="does not fit into memory and cannot be pickled"):
        dump_state({"lock": threading.Lock()})


def test_sizes_grow_with_what_is_inside():
    assert entry_bytes("k", "x" * 10_000) > 10_000
    assert entry_bytes("k", ["x" * 100] * 1000) > 100_000
    assert entry_bytes("k", {"a": {"b": "x" * 10_000}}) > 10_000
    nested = ((("x" * 10_000,),),)
    for one, deeper in (({nested: 1}, {(nested,): 1}), ({1: nested}, {1: (nested,)})):
        assert entry_bytes("k", deeper) < 10_000 < entry_bytes("k", one)
    assert entry_bytes(1, 1) < 300
    many = entry_bytes("k", [(number, str(number)) for number in range(100_000)])
    assert 5_000_000 < many < 30_000_000


def test_timers_of_equal_time_and_hash():
    timers = SpilledTimers()
    timers.put([(1, -1), (1, -2), (2, "a")])
    timers.remove(1, -2)
    timers.remove(1, -3)
    assert timers.first_time() == 1
    assert timers.take_first() == [(1, -1), (2, "a")]
    assert timers.first_time() is None
    timers.close()


def _loaded(pickled):
    return list(load_states(BytesIO(pickled)))
