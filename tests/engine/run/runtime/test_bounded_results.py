"""A reader of results that has enough ends what gives them; endless and many results stay bounded."""

import resource
import threading
from itertools import count
from typing import ClassVar

import pytest

from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.pyflink.common import Types
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.runtime.compile_job import compile_job
from penstock.operators.chain.errors import EnoughResults, UserFunctionError
from penstock.operators.functions.functions import KeyedProcessFunction, WindowFunction
from penstock.operators.task.pulled import pulled
from penstock.operators.task.run_task import run_task
from penstock.operators.windows.assigners import CountTumblingWindowAssigner
from penstock.operators.windows.window import GlobalWindow
from penstock.plans.errors import JobExecutionError, MachineError
from tests.engine.run.runtime.run_in_process import NOT_FUSED, collected, compiled_job, inputs, sent

#: What functions yield for one record in these tests: more than any piece holds.
MANY = 200_000


class Endless:
    """Yields for ever, and remembers how far it came and whether it was closed."""

    closed: ClassVar[list[int]] = []

    def __call__(self, value, *context):
        reached = 0
        try:
            for reached in count():
                yield reached
        finally:
            Endless.closed.append(reached)


@pytest.fixture
def closed():
    Endless.closed = []
    return Endless


def test_a_limit_ends_an_endless_generator(env, closed):
    stream = env.from_collection([1, 2]).flat_map(Endless())
    assert collected(stream, 5) == [0, 1, 2, 3, 4]
    (reached,) = closed.closed
    assert reached < MANY


def test_a_limit_ends_the_producers_on_the_other_side_of_an_exchange(env, closed):
    env.set_parallelism(3)
    stream = env.from_collection([1, 2, 3]).flat_map(Endless(), Types.LONG())
    assert collected(stream, 4) == [0, 1, 2, 3]
    assert len(closed.closed) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "exchanged",
    [
        lambda stream: stream.key_by(lambda value: value % 3).map(lambda value: -value, Types.LONG()),
        lambda stream: stream.rebalance().map(lambda value: -value, Types.LONG()),
        lambda stream: stream.map(lambda value: -value, Types.LONG()).set_parallelism(1),
        lambda stream: stream.key_by(lambda _: 0).map(lambda value: -value, Types.LONG()).rebalance(),
        lambda stream: stream.disable_chaining().map(abs).disable_chaining().union(stream.map(abs)).map(
            lambda value: -value
        ),
        lambda stream: stream.key_by(lambda value: value % 3).reduce(max).map(lambda value: -value),
    ],
)  # fmt: skip
def test_a_limit_ends_endless_functions_before_an_exchange(env, closed, exchanged, monkeypatch):
    monkeypatch.setattr("penstock.engine.run.runtime.run_on_spark._FIRST_BUDGET_BYTES", 4096)
    env.set_parallelism(2)
    found = collected(exchanged(env.from_collection([1, 2]).flat_map(Endless(), Types.LONG())), 5)
    assert len(found) == 5
    assert all(value <= 0 for value in found)
    assert max(closed.closed) < MANY


@pytest.mark.slow
def test_a_limit_that_the_beginning_does_not_reach_takes_more_of_it(env, closed, monkeypatch):
    monkeypatch.setattr("penstock.engine.run.runtime.run_on_spark._FIRST_BUDGET_BYTES", 1)
    stream = env.from_collection([1]).flat_map(Endless(), Types.LONG()).key_by(lambda _: 0)
    late = stream.filter(lambda value: value >= 200_000)
    assert collected(late, 3) == [200_000, 200_001, 200_002]
    assert len(closed.closed) > 1


@pytest.mark.slow
def test_what_is_cut_off_is_not_the_end_of_the_input(env, monkeypatch):
    """Windows and timers at the end of the input are of the whole of it."""
    monkeypatch.setattr("penstock.engine.run.runtime.run_on_spark._FIRST_BUDGET_BYTES", 1)
    keyed = env.from_collection([1]).flat_map(lambda _: range(50_000), Types.LONG()).key_by(lambda _: 0)

    class Last(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            yield timestamp

    assert collected(keyed.process(Last(), Types.LONG()), 3) == [0, 1, 2]
    again = env.from_collection([1]).flat_map(lambda _: range(50_000), Types.LONG()).key_by(lambda _: 0)
    assert collected(again.window(CountTumblingWindowAssigner(49_999)).apply(Size(), Types.LONG()), 2) == [
        49_999
    ]


class Size(WindowFunction[int, int, int, GlobalWindow]):
    def apply(self, key, window, inputs):
        yield len(list(inputs))


def test_a_full_disk_names_the_operator_and_what_to_do(env, monkeypatch):
    monkeypatch.setattr("penstock.operators.exchange.channel_writer._BYTES_BETWEEN_CHECKS", 1 << 20)
    monkeypatch.setattr("penstock.operators.exchange.channel_writer._RESERVE_BYTES", 1 << 60)
    stream = env.from_collection([1]).flat_map(Endless(), Types.LONG()).key_by(lambda _: 0)
    with pytest.raises(UserFunctionError, match="begins when all of its input is written") as caught:
        collected(stream.map(lambda value: value))
    assert caught.value.operator == "FlatMap, _stream_key_by_map_operator"
    failed = with_exit_code_of_disk(JobExecutionError(caught.value.cause))
    assert failed.exit_code == MachineError.exit_code


def test_a_limit_takes_the_first_records_there_are(env):
    env.set_parallelism(2)
    stream = env.from_collection(list(range(100))).map(lambda value: value)
    everything = collected(stream)
    for limit in (1, 37, 100, 1000):
        again = env.from_collection(list(range(100))).map(lambda value: value)
        assert collected(again, limit) == everything[:limit]


def test_a_limit_beside_another_end_of_the_job_stops_nothing(env):
    env.configure(NOT_FUSED)
    seen = env.from_collection(list(range(50))).map(lambda value: value)
    seen.map(lambda value: value).print()
    compiled, _ = compiled_job(seen, 3)
    assert [terminal.sink.limit for terminal in compiled.terminals if hasattr(terminal.sink, "limit")] == [
        None
    ]


def test_a_reader_that_closes_the_rows_ends_the_functions(env, closed):
    """What Spark does to a subtask when a DataFrame has enough rows."""
    compiled, settings = compiled_job(env.from_collection([1]).flat_map(Endless(), Types.LONG()))
    (vertex,) = compiled.vertices
    rows = run_task(sent(vertex, settings), inputs(vertex, 0, []))
    assert next(rows).num_rows
    assert closed.closed == []
    rows.close()
    assert len(closed.closed) == 1
    assert not [one for one in threading.enumerate() if one.name.startswith("vertex ")]


def test_pulled_hands_over_one_by_one_and_ends_what_pushes():
    steps: list[str] = []

    def push(put):
        try:
            for number in count():
                steps.append(f"made {number}")
                put(number)
        except EnoughResults:
            steps.append("enough")
            raise

    rows = pulled(push, "numbers")
    for number in range(2):
        steps.append(f"took {next(rows)}")
        assert steps[-1] == f"took {number}"
    rows.close()
    assert steps == ["made 0", "took 0", "made 1", "took 1", "enough"]


def test_pulled_raises_what_pushing_raises():
    def push(put):
        put(1)
        raise KeyboardInterrupt("of a function")

    rows = pulled(push, "numbers")
    assert next(rows) == 1
    with pytest.raises(KeyboardInterrupt, match="of a function"):
        next(rows)


def test_memory_stays_bounded(env):
    """Two million strings for one record, through an exchange block by block."""

    def many(value):
        for _ in range(400_000):
            yield "x" * 400

    compiled, settings = compiled_job(
        env.from_collection([1]).flat_map(many, Types.STRING()).rebalance().map(len, Types.LONG())
    )
    first = compiled.vertices[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = sum(
        batch.nbytes for batch in run_task(sent(first, settings), inputs(first, 0, [])) if batch.num_rows
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert size > 160_000_000
    assert after - before < 100_000  # KiB


@pytest.mark.slow
@pytest.mark.parametrize("number", [1000, 5000])
def test_thousands_of_chained_maps_run(env, number):
    stream = env.from_collection([1, 2], Types.LONG())
    for _ in range(number):
        stream = stream.map(lambda value: value + 1)
    assert collected(stream) == [number + 1, number + 2]


def test_a_dataframe_is_not_gathered_in_one_subtask(env):
    """After an exchange Spark could not stop the subtasks before it, however few rows it needs."""
    env.set_parallelism(2)
    stream = env.from_collection([1, 2]).flat_map(Endless(), Types.LONG())
    job = env._job_to_run([stream._dataframe_sink()], None)
    compiled = compile_job(job.lowered.to_run, plan_to_run(job), batch=job.batch)
    assert [one.chain.name for one in compiled.vertices][1].startswith("FlatMap -> ")
    assert [one.chain.parallelism for one in compiled.vertices] == [1, 2]
