"""Records of their own: copies for readers, and of what functions keep; integers and bytes of collections."""

import pytest

from penstock.engine.pyflink.datastream.stream_outputs import collected_values
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import copies, is_plain, never_change, own
from penstock.operators.common.row import Row
from penstock.operators.common.time import TimestampAssigner, WatermarkStrategy
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.collection import CollectionSource
from penstock.operators.functions.functions import MapFunction
from penstock.operators.records.map_records import FlatMapOperator, MapOperator
from penstock.operators.records.record_batches import TimestampsAndWatermarksOperator
from tests.operator_harness import run

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_copies_share_nothing_that_changes():
    values = [[1], ("a", {"x": [0]}), Row(1, [2]), 7, ("b", 1)]
    copied = copies(values)
    assert copied == values
    copied[0].append(9)
    copied[1][1]["x"].append(9)
    copied[2][1].append(9)
    assert values == [[1], ("a", {"x": [0]}), Row(1, [2]), 7, ("b", 1)]


def test_what_never_changes():
    assert never_change([1, "a", None, (1, "b"), b"c"])
    assert not never_change([1, [2]])
    assert not never_change([(1, [2])])
    assert is_plain(Types.TUPLE([Types.STRING(), Types.SQL_DATE()]))
    assert not is_plain(Types.TUPLE([Types.LIST(Types.INT())]))
    assert not is_plain(None)


def test_own_copies_what_others_hold():
    held = [1]
    shared, alone = (0, held), (0, [1])
    assert own(shared)[1] is not held
    assert own(alone) is alone


class Growing(MapFunction):
    def open(self, runtime_context):
        self.seen = []

    def map(self, value):
        self.seen.append(value)
        return (value, self.seen)


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: [one], lambda one: {"x": one}])
def test_results_show_what_was_kept_when_they_were_given(wrapped):
    class Wrapping(Growing):
        def map(self, value):
            return wrapped(super().map(value))

    found = run(MapOperator(Wrapping()), [1, 2, 3]).values
    assert found == [wrapped((1, [1])), wrapped((2, [1, 2])), wrapped((3, [1, 2, 3]))]


def test_flat_mapped_tuples_show_what_was_kept_when_they_were_given():
    def grow(text):
        seen = []
        for word in text.split():
            seen.append(word)
            yield (word, seen)

    assert run(FlatMapOperator(grow), ["a b"]).values == [("a", ["a"]), ("b", ["a", "b"])]


def read(source):
    return [
        value for split in source.splits(1)[0] for chunk in source.read(split, None) for value in chunk.values
    ]


def test_elements_of_a_collection_share_nothing():
    one = [1]
    first, second = read(CollectionSource([one, one]))
    assert first == second == [1]
    assert first is not second


@pytest.mark.parametrize(
    ("values", "type_info", "expected"),
    [
        ([43878, 1, -40000], Types.SHORT(), [-21658, 1, 25536]),
        ([200, -129, 1000], Types.BYTE(), [-56, 127, -24]),
        ([2**31, 2**40 + 7], Types.INT(), [-(2**31), 7]),
        ([(43878, 300)], Types.TUPLE([Types.SHORT(), Types.BYTE()]), [(-21658, 44)]),
        ([Row(43878)], Types.ROW([Types.SHORT()]), [Row(-21658)]),
        ([{"a": 43878}], Types.MAP(Types.STRING(), Types.SHORT()), [{"a": -21658}]),
        ([[1, 43878]], Types.LIST(Types.SHORT()), [[1, -21658]]),
    ],
)
def test_integers_of_a_collection_wrap(values, type_info, expected):
    assert [repr(value) for value in read(CollectionSource(values, type_info))] == [
        repr(value) for value in read(CollectionSource(expected, type_info))
    ]


def test_integers_of_more_than_64_bits_do_not_wrap():
    with pytest.raises(OverflowError):
        CollectionSource([2**63], Types.INT())


def test_arrays_of_bytes_are_collected_as_lists():
    assert collected_values([b"a\xff", None], BYTES) == [[97, -1], None]
    assert collected_values([(b"a", 1)], Types.TUPLE([BYTES, Types.INT()])) == [([97], 1)]
    assert collected_values([Row(b"a")], Types.ROW([BYTES]))[0][0] == [97]
    assert collected_values([{"a": b"b"}], Types.MAP(Types.STRING(), BYTES)) == [{"a": [98]}]
    assert collected_values([[b"a"]], Types.LIST(BYTES)) == [[[97]]]
    values = [1]
    assert collected_values(values, Types.INT()) is values


class Stamp(TimestampAssigner):
    def __init__(self, stamp):
        self.stamp = stamp

    def extract_timestamp(self, value, record_timestamp):
        return self.stamp


def test_timestamps_are_integers():
    def stamped(stamp):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp(stamp))
        return run(TimestampsAndWatermarksOperator(strategy), ["a"]).stamped

    assert stamped(1.7) == [("a", 1)]
    for wrong in (None, "5"):
        with pytest.raises(UserFunctionError, match="must return an integer"):
            stamped(wrong)
