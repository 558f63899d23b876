"""BATCH mode's order: key by key, each key's records by timestamp, input 1 before input 2."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.exchange.sort_by_key import KeySorter

STAMPS = st.none() | st.integers(0, 5)


def records_of(inputs):
    return st.lists(st.tuples(inputs, st.sampled_from("abcde"), STAMPS), max_size=60)


RECORDS = records_of(st.integers(1, 2)) | records_of(st.just(2))


def drained(sorter):
    found = []
    for portions in sorter.drain():
        records = []
        for portion in portions:
            stamps = portion.timestamps or [None] * len(portion.values)
            records += [
                (stamp, portion.input_number, value)
                for stamp, value in zip(stamps, portion.values, strict=True)
            ]
        found.append(records)
    return found


def filled(records, memory_bytes):
    sorter = KeySorter(memory_bytes)
    for position, (number, key, stamp) in enumerate(records):
        sorter.add(number, [key], [(key, position)], [stamp], 100)
    return sorter


@given(RECORDS, st.sampled_from([150, 1000, 10**9]))
def test_sorted_by_key_timestamp_and_input_whether_or_not_it_spills(records, memory_bytes):
    expected: dict[str, list[tuple[int | None, int, tuple[str, int]]]] = {}
    for position, (number, key, stamp) in enumerate(records):
        expected.setdefault(key, []).append((stamp, number, (key, position)))
    wanted = [
        sorted(some, key=lambda one: (-1 if one[0] is None else one[0], one[1])) for some in expected.values()
    ]
    assert drained(filled(records, memory_bytes)) == wanted


@given(RECORDS)
def test_a_sorter_can_be_filled_again(records):
    sorter = filled(records, 500)
    drained(sorter)
    sorter.add(1, ["z"], ["last"], None, 100)
    assert drained(sorter) == [[(None, 1, "last")]]


def test_one_key_with_more_than_fits_comes_in_portions():
    sorter = KeySorter(1000)
    for start in range(0, 20_000, 1000):
        values = list(range(start, start + 1000))
        sorter.add(1, ["k"] * 1000, values, None, 500)
    (portions,) = [[portion.values for portion in key] for key in sorter.drain()]
    assert len(portions) > 1
    assert [value for some in portions for value in some] == list(range(20_000))
