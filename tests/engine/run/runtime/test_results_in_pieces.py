"""The results of one record leave in pieces: all of them, in order, as they were when they were given."""

import pyarrow as pa
import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import RuntimeExecutionMode
from penstock.operators.chain.operator import PieceSize
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.functions.functions import (
    CoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
)
from penstock.operators.windows.assigners import CountTumblingWindowAssigner
from penstock.operators.windows.interval_join import IntervalJoinOperator
from tests.engine.run.runtime.run_in_process import collected
from tests.operator_harness import Record, run

#: What functions yield for one record in these tests: more than any piece holds.
MANY = 200_000


class YieldMany(ProcessFunction):
    def process_element(self, value, ctx):
        yield from range(MANY)


class YieldManyAside(ProcessFunction):
    def process_element(self, value, ctx):
        for number in range(MANY):
            yield OutputTag("side", Types.LONG()), number


class YieldManyForKeys(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield from range(MANY)


class YieldManyForTwo(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield from range(MANY)

    def process_element2(self, value, ctx):
        return None


class YieldManyForWindows(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key, context, elements):
        yield from range(MANY)


STREAMS = {
    "flat map": lambda one: one.flat_map(lambda value: iter(range(MANY))),
    "process": lambda one: one.process(YieldMany()),
    "timer": lambda one: one.key_by(lambda value: value).process(YieldManyForKeys()),
    "two inputs": lambda one: one.connect(one).process(YieldManyForTwo()),
    "count window": lambda one: (
        one.key_by(lambda value: value)
        .window(CountTumblingWindowAssigner.of(1))
        .process(YieldManyForWindows())
    ),
    "keyed flat map": lambda one: one.key_by(lambda value: value).flat_map(lambda value: iter(range(MANY))),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("name", list(STREAMS))
def test_all_results_of_one_record_come_in_order_and_in_pieces(env, name, mode):
    env.set_runtime_mode(RuntimeExecutionMode[mode])

    def short(batch):
        assert batch.num_rows <= 1 << 16
        return batch

    stream = STREAMS[name](env.from_collection([7]))
    stream._transformation.output_type = Types.LONG()
    found = collected(stream.map_batches(short, pa.schema([("value", pa.int64())])))
    assert found == list(range(MANY))


def test_results_for_side_outputs_come_in_pieces(env):
    recorded = run(_process(YieldManyAside()), [1])
    assert recorded.side("side") == list(range(MANY))


def _process(function):
    from penstock.operators.process.process_operators import ProcessOperator

    return ProcessOperator(function)


def test_the_pairs_of_a_join_come_in_pieces():
    operator = IntervalJoinOperator(
        lambda value: 0, lambda value: 0, lambda left, right, ctx: ["x" * 1000] * 50, 0, 10
    )
    lefts = [Record(number, 5, 1) for number in range(1000)]
    recorded = run(operator, [*lefts, Record(0, 5, 2)], chunk=5000)
    assert len(recorded.values) == 50_000
    assert recorded.calls > 3


def test_large_results_make_short_pieces():
    piece = PieceSize()
    waiting: list[str] = []
    while not waiting or not piece.is_full(waiting):
        waiting += ["x" * (1 << 20)] * (piece.limit - len(waiting))
    assert 4 <= len(waiting) <= 16
    assert piece.limit <= 8
    small = list(range(piece.limit))
    while not piece.is_full(small):
        small += range(piece.limit - len(small))
    assert len(small) == 1 << 16


def test_timestamps_stay_with_results_in_pieces(env):
    from penstock.operators.records.map_records import FlatMapOperator

    recorded = run(
        FlatMapOperator(lambda value: iter(range(value))),
        [Record(3, 1), Record(100_000, 2), Record(2, None), Record(1, 4)],
        chunk=10,
    )
    assert recorded.stamped == [
        *((number, 1) for number in range(3)),
        *((number, 2) for number in range(100_000)),
        (0, None),
        (1, None),
        (0, 4),
    ]
    assert recorded.calls > 1


@pytest.mark.parametrize("first", [0, None, (1, 2)])
def test_a_result_that_the_function_changes_later_is_what_it_was(env, first):
    """Also where the results before it cannot be changed."""
    held = []

    def result(value):
        held.append(value)
        return first if value == 1 else held

    assert collected(env.from_collection([1, 2, 3]).map(result)) == [first, [1, 2], [1, 2, 3]]
