"""Results are what they were when they were put out, whatever happens to the objects later."""

import dataclasses
import datetime
import enum
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.chain.operator import Results, frozen
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import KeyedProcessFunction, ProcessFunction
from penstock.operators.process.keyed_process_operators import (
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from penstock.operators.process.process_operators import ProcessOperator, call_function
from penstock.operators.records.map_records import FlatMapOperator, MapOperator
from penstock.operators.state.interfaces import ListStateDescriptor
from tests.operator_harness import Recording, run


class Growing(KeyedProcessFunction):
    """Puts out the same object again and again, in many wrappings."""

    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.seen, self.row = [], Row(n=0, inner=[0])

    def process_element(self, value, ctx):
        self.seen.append(value)
        self.row["n"] += 1
        self.row["inner"].append(value)
        yield self.seen
        yield ("pair", self.seen)
        yield {"seen": self.seen}
        yield self.row
        yield OutputTag("side"), self.seen


def test_objects_that_grow():
    recorded = run(KeyedProcessOperator(Growing(), lambda value: value % 2), [1, 2], chunk=10)
    assert recorded.values == [
        [1],
        ("pair", [1]),
        {"seen": [1]},
        Row(n=1, inner=[0, 1]),
        [1, 2],
        ("pair", [1, 2]),
        {"seen": [1, 2]},
        Row(n=2, inner=[0, 1, 2]),
    ]
    assert recorded.side("side") == [[1], [1, 2]]


class OneRow(ProcessFunction):
    """Puts out one Row in several ways."""

    def __init__(self, way):
        self.way, self.row, self.rows = way, Row(0, "x"), []

    def process_element(self, value, ctx):
        self.row[0] += 1
        if self.way == "yielded":
            yield self.row
        elif self.way == "from a list":
            yield from [self.row]
        else:
            self.rows.append(Row(self.row[0], "x"))
            yield from self.rows[-1:]
            self.rows[-1][1] = "changed"


@pytest.mark.parametrize("way", ["yielded", "from a list", "kept by the function"])
def test_rows_that_are_changed(way):
    recorded = run(ProcessOperator(OneRow(way)), [1, 2, 3], chunk=10)
    assert recorded.values == [Row(1, "x"), Row(2, "x"), Row(3, "x")]


def test_a_new_row_is_not_copied():
    made = []

    def new(number):
        row = Row(number)
        made.append(id(row._values))
        return row

    class New(ProcessFunction):
        def process_element(self, value, ctx):
            yield new(value)

    values = run(ProcessOperator(New()), [1, 2, 3], chunk=10).values
    assert [id(row._values) for row in values] == made


def test_reduce_may_change_its_first_argument():
    """As KeyedStream.sum does with Rows."""

    def add(one, other):
        one[1] = one[1] + other[1]
        return one

    rows = [Row("a", 1), Row("b", 5), Row("a", 2), Row("a", 3)]
    recorded = run(ReduceOperator(add, lambda row: row[0]), rows, chunk=10)
    assert recorded.values == [Row("a", 1), Row("b", 5), Row("a", 3), Row("a", 6)]


def test_what_can_change_may_come_after_what_cannot():
    kept = []

    def numbers_then_lists(value):
        kept.append(value)
        return value if value < 2 else kept

    def pairs_then_lists(value):
        return [(value, value), (value, numbers_then_lists(value))]

    assert run(MapOperator(numbers_then_lists), [0, 1, 2, 3], chunk=10).values == [
        0,
        1,
        [0, 1, 2],
        [0, 1, 2, 3],
    ]
    kept.clear()
    assert run(FlatMapOperator(pairs_then_lists), [1, 2, 3], chunk=10).values == [
        (1, 1),
        (1, 1),
        (2, 2),
        (2, [1, 2]),
        (3, 3),
        (3, [1, 2, 3]),
    ]


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_lists_of_any_length_keep_their_order(count):
    def lists(value):
        return [value, (value, [value]), *range(count)]

    expected = [item for value in (7, 8) for item in lists(value)]
    assert run(FlatMapOperator(lists), [7, 8], chunk=10).values == expected
    plain = run(FlatMapOperator(lambda value: [value] * count), [7, 8], chunk=10).values
    assert plain == [7] * count + [8] * count


def test_map_may_keep_what_it_returns():
    seen: list[int] = []

    def keep(value):
        seen.append(value)
        return seen

    recorded = run(KeyedMapOperator(keep, lambda value: 0), [1, 2, 3], chunk=10)
    assert recorded.values == [[1], [1, 2], [1, 2, 3]]


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    one: int
    other: str


@dataclasses.dataclass
class Point:
    x: int
    y: list[int]


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | inner.map(lambda v: Row(v, 1))
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_frozen_values_are_equal(value):
    assert repr(frozen(value)) == repr(value)


def test_frozen_shares_nothing_that_changes():
    point = Point(1, [2])
    row = Row.of_kind(RowKind.DELETE, [1])
    row.set_field_names(["a"])
    value: list[Any] = [(1, [2]), {"k": point}, row, {1, 2}, bytearray(b"x")]
    copy = frozen(value)
    value[0][1].append(3)
    point.y.append(3)
    row[0].append(2)
    value[3].add(3)
    value[4].append(1)
    kept = Row.of_kind(RowKind.DELETE, [1])
    kept.set_field_names(["a"])
    assert copy == [(1, [2]), {"k": Point(1, [2])}, kept, {1, 2}, bytearray(b"x")]


def test_frozen_leaves_alone_what_cannot_change_or_be_copied():
    lock = threading.Lock()
    for value in (Colour.RED, (1, "a"), Pair(1, "a"), datetime.timedelta(1), lock):
        assert frozen(value) is value


def test_results_that_are_nothing():
    recorded = Recording()
    results = Results(recorded)
    nothing: Any
    for nothing in (None, [], (), "", 0, False):
        results.add(nothing, 1)
    results.flush()
    assert recorded.events == []
    results.add("ab", None)
    results.add([(), [()]], 7)
    results.flush()
    assert recorded.events == [
        ("record", "a", None),
        ("record", "b", None),
        ("record", (), 7),
        ("record", [()], 7),
    ]


def test_results_that_are_no_iterable():
    with pytest.raises(TypeError, match="not iterable"):
        Results(Recording()).add(5, None)  # type: ignore[arg-type]


def test_a_value_that_holds_itself_is_copied():
    value: list[Any] = [1]
    value.append(value)
    copy = frozen(value)
    value[0] = 2
    assert copy[0] == 1
    assert copy[1] is copy


def test_results_are_put_out_as_soon_as_there_is_no_more_room():
    """Also while a function goes on to give results for one record."""

    class Roomy(Results):
        def room(self):
            return 4

        def relieve(self):
            self.flush()

    recorded = Recording()
    call_function(
        lambda value, context: range(value),
        [3, 7, 8],
        None,
        "abc",
        context=SimpleNamespace(),
        backend=SimpleNamespace(),
        results=(results := Roomy(recorded)),
        operator=KeyedMapOperator(None, lambda value: value),
    )
    assert (recorded.calls, len(recorded.values), results.count()) == (4, 16, 2)
