"""Keyed state against plain dictionaries, in memory and with everything but the keys at hand on disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.serialized_keys import dictionary_key
from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import AggregateFunction
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.state import interfaces as descriptors
from penstock.operators.state.interfaces import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.ttl_config import StateTtlConfig


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


VALUE = ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())

# -1 and -2 have the same hash.
KEYS = st.sampled_from([-1, -2, 0, 1, "1", 1.0, True, (1, 2), (1, True), [1], {"a": 1}, None])
NUMBERS = st.integers(0, 9)
NAMES = st.sampled_from("xyz")
STEPS = st.one_of(
    st.tuples(st.just("value.update"), NUMBERS | st.none()),
    st.tuples(st.sampled_from(["list.add", "sum.add", "mean.add"]), NUMBERS),
    st.tuples(st.sampled_from(["list.update", "list.add_all"]), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.just("map.put"), NAMES, NUMBERS | st.none()),
    st.tuples(st.just("map.put_all"), st.dictionaries(NAMES, NUMBERS, max_size=2)),
    st.tuples(st.just("map.remove"), NAMES),
    st.tuples(st.sampled_from([f"{name}.clear" for name in ("value", "list", "map", "sum", "mean")])),
)
RECORDS = st.lists(st.tuples(KEYS, STEPS), max_size=8)


class Plain:
    """What the states should hold: for each key one entry of a list, found by comparing reprs."""

    def __init__(self):
        self.by_key = {}

    def apply(self, key, step):
        name, *arguments = step
        state = self.by_key.setdefault(
            repr(key), {"value": None, "list": [], "map": {}, "sum": [], "mean": []}
        )
        kind, what = name.split(".")
        if what == "clear":
            state[kind] = {"value": None, "map": {}}.get(kind, [])
        elif kind == "value":
            state["value"] = arguments[0]
        elif what == "add":
            state[kind].append(arguments[0])
        elif what == "add_all":
            state["list"].extend(arguments[0])
        elif name == "list.update":
            state["list"] = list(arguments[0])
        elif name == "map.put":
            state["map"][arguments[0]] = arguments[1]
        elif name == "map.put_all":
            state["map"].update(arguments[0])
        else:
            state["map"].pop(arguments[0], None)
        numbers = state["mean"]
        return {
            "value": state["value"],
            "list": list(state["list"]),
            "sum": sum(state["sum"]) if state["sum"] else None,
            "mean": sum(numbers) / len(numbers) if numbers else None,
            "items": dict(state["map"]),
            "contains x": state["map"].get("x") is not None,
            "empty": not state["map"],
        }


def outcomes(lists, memory):
    backend = KeyedStateBackend(OperatorContext(state_memory_bytes=memory))
    states = {descriptor.name: backend.state(descriptor) for descriptor in (VALUE, LIST, MAP, SUM, MEAN)}
    for records in lists:
        keys = [dictionary_key(key) for key, _ in records]
        if backend.cold:
            backend.load(set(keys))
        for key, (original, (name, *arguments)) in zip(keys, records, strict=True):
            backend.key = key
            assert repr(backend.current_key()) == repr(original)
            kind, what = name.split(".")
            getattr(states[kind], what)(*arguments)
            items = states["map"]
            assert sorted(items.keys()) == sorted(dict(items.items())) == sorted(items)
            assert list(items.values()) == [items[name] for name in items]
            yield {
                "value": states["value"].value(),
                "list": list(states["list"]),
                "sum": states["sum"].get(),
                "mean": states["mean"].get(),
                "items": dict(items.items()),
                "contains x": "x" in items,
                "empty": items.is_empty(),
            }
        backend.relieve(len(records), keys)
    backend.close()


@pytest.mark.slow
@given(lists=st.lists(RECORDS, max_size=8), memory=st.sampled_from([1, 1000, 1 << 30]))
def test_states_hold_what_plain_dictionaries_do(lists, memory):
    plain = Plain()
    expected = [plain.apply(key, step) for records in lists for key, step in records]
    assert list(outcomes(lists, memory)) == expected


def test_a_list_that_was_got_stays_as_it_is():
    backend = KeyedStateBackend(OperatorContext())
    state = backend.state(LIST)
    backend.key = "k"
    state.add(1)
    before = state.get()
    state.add(2)
    state.clear()
    assert list(before) == [1]


@pytest.mark.parametrize("ttl", [False, True])
def test_entries_are_removed_while_they_are_iterated_over(ttl):
    descriptor = MapStateDescriptor("map", Types.STRING(), Types.LONG())
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    state = KeyedStateBackend(OperatorContext()).state(descriptor)
    state.put_all(dict.fromkeys("abcd", 1))
    for iterate, left in ((state.items, "bcd"), (state.keys, "cd"), (state.values, "d")):
        entries = iterate()
        with pytest.raises(RuntimeError, match="must follow next"):
            entries.remove()
        next(entries)
        entries.remove()
        with pytest.raises(RuntimeError, match="must follow next"):
            entries.remove()
        assert "".join(state.keys()) == left
    for _ in (entries := state.items()):
        entries.remove()
    assert state.is_empty()


def test_map_may_be_changed_while_it_is_iterated_over():
    backend = KeyedStateBackend(OperatorContext())
    state = backend.state(MAP)
    state.put_all({"a": 1, "b": 2})
    for key in state:
        del state[key]
        state[key + "!"] = 0
    assert sorted(state) == ["a!", "b!"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ListStateDescriptor("value", Types.LONG()), "already in use and not a ListState"),
        (ValueStateDescriptor("value", Types.STRING()), "State name corrupted: value"),
    ],
)
def test_a_name_stands_for_one_state(other, message):
    backend = KeyedStateBackend(OperatorContext())
    assert backend.state(VALUE) is backend.state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
    with pytest.raises(Exception, match=message):
        backend.state(other)


def test_descriptors_check_their_functions():
    with pytest.raises(TypeError, match="ReduceFunction or a callable"):
        ReducingStateDescriptor("sum", 1, Types.LONG())
    with pytest.raises(TypeError, match="AggregateFunction"):
        AggregatingStateDescriptor("mean", len, Types.LONG())  # type: ignore[arg-type]
    assert SUM.get_reduce_function().reduce(1, 2) == 3


def test_without_a_key_there_is_no_keyed_state():
    context = RuntimeContext(OperatorContext())
    with pytest.raises(Exception, match="only accessible by functions executed on a KeyedStream"):
        context.get_state(VALUE)


@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_namespaces_keep_apart_and_merge(memory):
    backend = KeyedStateBackend(OperatorContext(state_memory_bytes=memory))
    states = [backend.state(descriptor, namespaced=True) for descriptor in (LIST, SUM, MEAN)]
    for key in ("k", "l"):
        for namespace, number in (("a", 1), ("b", 2), ("c", 6)):
            backend.key = key
            backend.namespace.set(namespace)
            for state in states:
                state.add(number)
            backend.relieve(1)
    backend.key = "k"
    for state in states:
        state.merge_namespaces("c", ["b", "a", "nothing"])
    backend.relieve(1)
    backend.namespace.set("c")
    assert [state.get() for state in states] == [[6, 2, 1], 9, 3.0]
    backend.namespace.set("a")
    assert [state.get() for state in states] == [[], None, None]
    backend.key = "l"
    backend.namespace.set("a")
    assert [state.get() for state in states] == [[1], 1, 1.0]
    backend.close()


@pytest.mark.parametrize(
    "call",
    [
        "ValueStateDescriptor('a', 5)", "ValueStateDescriptor('a', None)",
        "ValueStateDescriptor(5, Types.INT())",
        "ListStateDescriptor('a', int)", "MapStateDescriptor('a', int, Types.INT())",
        "MapStateDescriptor('a', Types.INT(), None)", "ReducingStateDescriptor('a', max, 5)",
    ],
)  # fmt: skip
def test_wrong_arguments_of_descriptors_are_refused_at_the_call(call):
    with pytest.raises(TypeError, match=r" must be a .*, (got|not) "):
        eval(call, {**vars(descriptors), "Types": Types})
