"""Which subtask each record goes to."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.common.key_groups import key_groups, operator_index
from penstock.operators.common.typeinfo import Types
from penstock.operators.exchange.blocks import OutputSpec
from penstock.operators.exchange.channel_writer import ChannelChooser


def spec(partitioner, consumers, **rest):
    reading = rest.pop("reading", tuple((0, consumers) for _ in range(8)))
    return OutputSpec(
        source_node=1,
        tag=None,
        edge=3,
        partitioner=partitioner,
        type_info=Types.LONG(),
        consumers=consumers,
        consumer_max_parallelism=128,
        reading=reading,
        **rest,
    )


def targets(chooser, *lists):
    """Target of each value, over several lists handed in one after the other."""
    found = []
    for values in lists:
        places: dict[int, int] = {}
        for (target, _), some, _ in chooser.split(list(enumerate(values)), None):
            places |= {position: target for position, _ in some}
        found += [places[position] for position in range(len(values))]
    return found


@given(st.lists(st.lists(st.integers(), min_size=1, max_size=7), max_size=6), st.integers(1, 5))
def test_rebalance_is_round_robin_over_lists_of_any_length(lists, consumers):
    chooser = ChannelChooser(spec("rebalance", consumers), 3, 0)
    found = targets(chooser, *lists)
    assert found == [(3 + n) % consumers for n in range(len(found))]


def test_a_batch_is_split_into_the_rows_of_each_channel():
    chooser = ChannelChooser(spec("rebalance", 3), 0, 0)
    batch = pa.record_batch({"value": list(range(7))})
    portions = chooser.split_batch(batch, pa.array(range(10, 17)))
    found = [(channel, rows["value"].to_pylist(), stamps) for channel, rows, stamps in portions]
    assert [(*portion, stamps and stamps.to_pylist()) for *portion, stamps in found] == [
        ((0, -1), [0, 3, 6], [10, 13, 16]),
        ((1, -1), [1, 4], [11, 14]),
        ((2, -1), [2, 5], [12, 15]),
    ]


def test_rescale_stays_among_the_subtasks_that_the_execution_graph_names():
    chooser = ChannelChooser(spec("rescale", 6, reading=((0, 3), (3, 3))), 1, 0)
    assert targets(chooser, range(5), range(2)) == [3, 4, 5, 3, 4, 5, 3]


def test_global_and_forward_have_one_target():
    assert set(targets(ChannelChooser(spec("global", 4), 2, 0), range(9))) == {0}
    forward = ChannelChooser(spec("forward", 4, reading=tuple((n, 1) for n in range(4))), 2, 0)
    assert set(targets(forward, range(9))) == {2}


def test_shuffle_is_even_and_the_same_again_for_a_seed():
    first = targets(ChannelChooser(spec("shuffle", 4), 2, 7), range(4000))
    assert first == targets(ChannelChooser(spec("shuffle", 4), 2, 7), range(4000))
    assert first != targets(ChannelChooser(spec("shuffle", 4), 2, 8), range(4000))
    assert all(850 < count < 1150 for count in Counter(first).values())


@pytest.mark.parametrize("grouped", [False, True])
def test_hash_follows_flinks_key_groups(grouped):
    chooser = ChannelChooser(
        spec("hash", 3, key_selector=lambda v: v * 7, key_type=Types.LONG(), grouped=grouped), 0, 0
    )
    values = list(range(500))
    groups = key_groups([v * 7 for v in values], Types.LONG(), 128)
    expected = dict(zip(values, groups, strict=True))
    seen = []
    for (target, group), some, stamps in chooser.split(values, [v + 1 for v in values]):
        assert stamps == [v + 1 for v in some], "timestamps stay with their values"
        for value in some:
            assert target == operator_index(expected[value], 128, 3)
            assert group == (expected[value] if grouped else -1)
        seen += some
    assert sorted(seen) == values


def test_custom_partitioner_is_asked_with_the_key_and_may_not_leave_the_channels():
    chosen = ChannelChooser(
        spec("custom", 3, key_selector=lambda v: v[1], custom_partitioner=lambda key, n: key % n), 0, 0
    )
    assert targets(chosen, [5, 6, 7]) == [2, 0, 1]
    assert {channel for channel, _, _ in chosen.split([(0, 5), (1, 6)], None)} == {(2, -1), (0, -1)}
    wrong = ChannelChooser(spec("custom", 3, custom_partitioner=lambda key, n: n), 0, 0)
    with pytest.raises(ValueError, match="must return a channel from 0 to 2, got 3"):
        targets(wrong, [1])
