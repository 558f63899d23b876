"""State that expires, with a clock that is set by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.state.interfaces import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.ttl_config import StateTtlConfig
from tests.operator_harness import Clock
from tests.operators.state.test_keyed_states import Mean

LIFETIME = 10
BUILDER = StateTtlConfig.new_builder(Time.milliseconds(LIFETIME))
WRITE = BUILDER.build()
READ = StateTtlConfig.new_builder(Time.milliseconds(LIFETIME)).update_ttl_on_read_and_write().build()
SEEN = StateTtlConfig.new_builder(Time.milliseconds(LIFETIME)).return_expired_if_not_cleaned_up().build()
DISABLED = (
    StateTtlConfig.new_builder(Time.milliseconds(LIFETIME))
    .set_update_type(StateTtlConfig.UpdateType.Disabled)
    .build()
)


def states(config, memory=1 << 30):
    clock = Clock(0)
    backend = KeyedStateBackend(OperatorContext(processing_time=clock, state_memory_bytes=memory))
    backend.key = "k"
    made = {}
    for descriptor in (
        ValueStateDescriptor("value", Types.LONG()),
        ListStateDescriptor("list", Types.LONG()),
        MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()),
        AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY()),
    ):
        descriptor.enable_time_to_live(config)
        made[descriptor.name] = backend.state(descriptor)
    return clock, made, backend


def read_all(made):
    return (
        made["value"].value(),
        list(made["list"]),
        dict(made["map"].items()),
        made["map"].get("a"),
        made["sum"].get(),
        made["mean"].get(),
    )


def write_all(made, number):
    made["value"].update(number)
    made["list"].add(number)
    made["map"].put("a", number)
    made["sum"].add(number)
    made["mean"].add(number)


FULL = (4, [4], {"a": 4}, 4, 4, 4.0)
EMPTY: tuple[object, ...] = (None, [], {}, None, None, None)


def test_expires_when_the_lifetime_is_over():
    clock, made, _ = states(WRITE)
    write_all(made, 4)
    clock.now = LIFETIME - 1
    assert read_all(made) == FULL
    clock.now = LIFETIME
    assert read_all(made) == EMPTY


def test_writing_prolongs_and_reading_does_not():
    clock, made, _ = states(WRITE)
    write_all(made, 4)
    clock.now = 6
    read_all(made)
    made["value"].update(5)
    made["list"].add(5)
    made["sum"].add(5)
    made["mean"].add(5)
    clock.now = 12
    assert read_all(made) == (5, [5], {}, None, 9, 4.5)


def test_reading_prolongs_if_asked_for():
    clock, made, _ = states(READ)
    write_all(made, 4)
    for now in (6, 12, 18):
        clock.now = now
        assert read_all(made) == FULL
    clock.now = 28
    assert read_all(made) == EMPTY


def test_expired_state_may_be_seen_once():
    clock, made, _ = states(SEEN)
    write_all(made, 4)
    clock.now = 20
    seen = (
        made["value"].value(),
        list(made["list"]),
        made["map"].get("a"),
        made["sum"].get(),
        made["mean"].get(),
    )
    assert seen == (4, [4], 4, 4, 4.0)
    assert read_all(made) == EMPTY


def test_disabled_never_expires():
    clock, made, _ = states(DISABLED)
    write_all(made, 4)
    clock.now = 10**9
    assert read_all(made) == FULL
    assert not DISABLED.is_enabled()


def test_what_is_added_to_expired_state_starts_anew():
    clock, made, _ = states(WRITE)
    write_all(made, 4)
    clock.now = 11
    write_all(made, 8)
    assert read_all(made) == (8, [8], {"a": 8}, 8, 8, 8.0)


ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["get", "remove"]), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["items", "clear"])),
    st.tuples(st.just("add"), st.integers(0, 9)),
    st.tuples(st.just("list")),
)


@given(
    steps=st.lists(st.tuples(st.integers(0, 7), ACTIONS), max_size=30),
    renew=st.booleans(),
    memory=st.sampled_from([1, 1 << 30]),
)
def test_elements_of_maps_and_lists_expire_one_by_one(steps, renew, memory):
    clock, made, backend = states(READ if renew else WRITE, memory)
    entries: dict[str, tuple[int, int]] = {}
    elements: list[tuple[int, int]] = []
    for wait, (what, *arguments) in steps:
        clock.now += wait
        now = clock.now
        alive = {key: pair for key, pair in entries.items() if pair[1] + LIFETIME > now}
        if backend.cold:
            backend.load({"k"})
        if what == "put":
            made["map"].put(*arguments)
            entries[arguments[0]] = (arguments[1], now)
        elif what == "get":
            key = arguments[0]
            assert made["map"].get(key) == (alive[key][0] if key in alive else None)
            if renew and key in alive:
                entries[key] = (alive[key][0], now)
        elif what == "remove":
            made["map"].remove(arguments[0])
            entries.pop(arguments[0], None)
        elif what == "items":
            assert dict(made["map"].items()) == {key: value for key, (value, _) in alive.items()}
            if renew:
                entries.update({key: (value, now) for key, (value, _) in alive.items()})
        elif what == "clear":
            made["map"].clear()
            entries.clear()
        elif what == "add":
            made["list"].add(arguments[0])
            elements.append((arguments[0], now))
        else:
            kept = [(value, since) for value, since in elements if since + LIFETIME > now]
            assert list(made["list"]) == [value for value, _ in kept]
            if renew:
                elements = [(value, now) for value, _ in kept]
        backend.relieve(1)
    backend.close()


def test_expired_elements_may_be_seen_until_all_have_expired():
    clock, made, _ = states(SEEN)
    made["list"].add_all([1, 2])
    clock.now = 5
    made["list"].add(3)
    clock.now = 12
    assert list(made["list"]) == [1, 2, 3]
    assert list(made["list"]) == [1, 2, 3]
    clock.now = 15
    assert list(made["list"]) == [1, 2, 3]
    assert list(made["list"]) == []


def test_defaults_and_builder():
    strategies = WRITE.get_cleanup_strategies()
    assert WRITE.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert WRITE.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert WRITE.get_ttl().to_milliseconds() == LIFETIME
    assert strategies.is_cleanup_in_background()
    assert strategies.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries() == 1000
    chosen = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .disable_cleanup_in_background()
        .set_ttl(Time.seconds(2))
        .build()
    )
    strategies = chosen.get_cleanup_strategies()
    assert chosen.get_ttl().to_milliseconds() == 2000
    assert strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy().run_cleanup_for_every_record()
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None
    assert str(StateTtlConfig.UpdateType.OnReadAndWrite) == "UpdateType.OnReadAndWrite"


def test_merging_expiring_namespaces():
    clock = Clock(0)
    backend = KeyedStateBackend(OperatorContext(processing_time=clock))
    descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
    descriptor.enable_time_to_live(WRITE)
    state = backend.state(descriptor, namespaced=True)
    backend.key = "k"
    for namespace in "abc":
        backend.namespace.set(namespace)
        state.add(1)
    clock.now = 9
    state.merge_namespaces("a", "bc")
    clock.now = 15
    backend.namespace.set("a")
    assert state.get() == 3


@pytest.mark.parametrize("config", [WRITE, READ])
def test_empty_after_everything_was_removed(config):
    _, made, _ = states(config)
    made["map"].put("a", 1)
    assert not made["map"].is_empty()
    made["map"].remove("a")
    assert made["map"].is_empty()
    made["list"].update([1])
    made["list"].update([])
    assert made["list"].get() == []
