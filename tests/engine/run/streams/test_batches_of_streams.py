"""State, timers, windows and watermarks from batch to batch, and the commit of a batch."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.connectors import JsonLinesSink
from penstock.datastream import (
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeExecutionMode,
    ValueStateDescriptor,
)
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.commands.main import app
from penstock.engine.planning.remembered_plans import Plans
from penstock.engine.run.commits import commit_run
from penstock.engine.run.streams import run_batch
from penstock.engine.run.streams.run_batch import last_manifest
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.pickles import dumps_for_workers
from penstock.operators.common.time import TimestampAssigner
from penstock.operators.connectors.sink import Sink
from penstock.operators.connectors.state_sink import segments_of, versions_in
from penstock.operators.windows.interval_join import ProcessJoinFunction
from penstock.plans.errors import ConfigurationError, JobCompileError, StoreError
from tests.engine.run.streams.batches_in_process import CLICK, Stream, bounded_rows, in_process, lines

__all__ = ["in_process"]
pytestmark = pytest.mark.usefixtures("in_process")

COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])
SPENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
CLICKS = [
    ("ann", 3, 0),
    ("bob", 5, 1000),
    ("ann", 4, 5000),
    ("bob", 1, 12_000),
    ("ann", 2, 13_000),
    ("cat", 7, 14_000),
    ("ann", 1, 26_000),
]
COUNTS = [["ann", 1], ["ann", 2], ["ann", 3], ["ann", 4], ["bob", 1], ["bob", 2], ["cat", 1]]
# the watermark is 23,999 in the end: windows that end later are open
WINDOWS = [["ann", 10_000, 7], ["ann", 20_000, 2], ["bob", 10_000, 5], ["bob", 20_000, 1], ["cat", 20_000, 7]]


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, click, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield click.user, count


class Spent(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key, context, clicks):
        yield key, context.window().end, sum(click.amount for click in clicks)


def counts_and_windows(folder: Path) -> Any:
    def build(clicks):
        clicks.process(Count(), COUNT).sink_to(JsonLinesSink(str(folder / "counts")))
        windows = clicks.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        windows.process(Spent(), SPENT).sink_to(JsonLinesSink(str(folder / "windows")))

    return build


def test_counts_and_windows_go_on_from_batch_to_batch(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path), lag=2000)
    stream.batches(CLICKS[:2], CLICKS[2:3], [], CLICKS[3:6], CLICKS[6:])
    assert lines(tmp_path / "counts") == COUNTS
    assert lines(tmp_path / "windows") == WINDOWS


def test_a_batch_that_was_done_is_skipped(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path))
    first = stream.batch(CLICKS[:2], 0)
    assert first is not None
    assert first["version"] == 1
    assert stream.batch(CLICKS[:2], 0) is None
    assert lines(tmp_path / "counts") == [["ann", 1], ["bob", 1]]


def test_rows_that_are_late_by_the_watermark_of_earlier_batches(tmp_path):
    late = OutputTag("late", CLICK)

    def build(clicks):
        windows = clicks.window(TumblingEventTimeWindows.of(Time.seconds(10))).allowed_lateness(5000)
        spent = windows.side_output_late_data(late).process(Spent(), SPENT)
        spent.sink_to(JsonLinesSink(str(tmp_path / "windows")))
        spent.get_side_output(late).map(tuple, SPENT).sink_to(JsonLinesSink(str(tmp_path / "late")))

    stream = Stream(tmp_path, build)
    stream.batches([("ann", 1, 1000), ("bob", 1, 12_000)], [("ann", 2, 2000)], [("bob", 1, 15_000)])
    # the first window of ann fired at 10,000, again for the late record, and is gone from 15,000 on
    assert lines(tmp_path / "windows") == [["ann", 10_000, 1], ["ann", 10_000, 3]]
    stream.batch([("ann", 4, 3000), ("ann", 5, 13_000)], 3)
    assert lines(tmp_path / "late") == [["ann", 4, 3000]]
    assert len(lines(tmp_path / "windows")) == 2


def test_watermarks_of_a_strategy_are_the_smallest_of_the_channels(tmp_path):
    class At(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value.at

    def build(clicks):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
        stamped = clicks.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(At()))
        keyed = stamped.key_by(user_of, Types.STRING())
        windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        windows.process(Spent(), SPENT).sink_to(JsonLinesSink(str(tmp_path / "windows")))

    stream = Stream(tmp_path, build, key=None, event_time=False)
    # two rows are two channels: the slower one decides, and the end of a batch does not fire windows
    stream.batches([("ann", 1, 1000), ("bob", 1, 30_000)])
    assert lines(tmp_path / "windows") == []
    # a channel without rows does not hold back the watermark, which is 20,999 now
    stream.batch([("bob", 2, 22_000)], 1)
    assert lines(tmp_path / "windows") == [["ann", 10_000, 1]]
    # the watermark stays, so the window is over
    stream.batch([("ann", 1, 2000), ("bob", 1, 2000)], 2)
    assert lines(tmp_path / "windows") == [["ann", 10_000, 1]]


def test_a_timer_sees_the_record_that_brings_its_watermark(tmp_path):
    class Amounts(KeyedProcessFunction):
        def open(self, runtime_context):
            self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", Types.LONG()))

        def process_element(self, click, ctx):
            self.amounts.add(click.amount)
            ctx.timer_service().register_event_time_timer(10_000)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), sum(self.amounts.get())

    def build(clicks):
        clicks.process(Amounts(), COUNT).sink_to(JsonLinesSink(str(tmp_path / "amounts")))

    Stream(tmp_path, build, lag=2000).batches([("ann", 1, 0)], [("ann", 2, 1000), ("ann", 4, 50_000)])
    # Flink emits a watermark after the record that it follows from, here one of the second subtask
    assert lines(tmp_path / "amounts") == [["ann", 7]]


def test_penstock_recover_finishes_a_batch(tmp_path, monkeypatch):
    stream = Stream(tmp_path, counts_and_windows(tmp_path))
    with monkeypatch.context() as patched:
        _killed_at(patched, "settled-1")
        with pytest.raises(Killed):
            stream.batch(CLICKS[:2], 0)
    assert last_manifest(str(tmp_path / "state")) is None
    assert CliRunner().invoke(app, ["recover", str(tmp_path / "state")]).exit_code == 0
    assert lines(tmp_path / "counts") == [["ann", 1], ["bob", 1]]
    assert stream.batch(CLICKS[:2], 0) is None


def test_a_journal_that_cannot_be_read_stops_the_stream(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path))
    stream.batch(CLICKS[:2], 0)
    part = tmp_path / "state" / ".penstock-runs" / ("0" * 32)
    part.mkdir(parents=True)
    for folder in (part.parent, part):
        folder.chmod(0o700)
    (part / "owner").write_text("{")
    (part / "owner").chmod(0o600)
    with pytest.raises(StoreError, match=r"the journal .* of a batch cannot be read"):
        stream.batch(CLICKS[2:3], 1)


def test_equal_topologies_of_batches_are_planned_once(tmp_path):
    plans: Plans = {}
    for number, subtasks in enumerate((2, 2, 3, 2)):
        stream = Stream(tmp_path, counts_and_windows(tmp_path), lag=2000, parallelism=subtasks, plans=plans)
        stream.batch(CLICKS[number : number + 1], number)
    steps = Counter(step.partition(",")[0] for step, _ in plans)
    assert steps == {"stream graph": 2, "all layers": 2, "savepoints": 2}
    assert lines(tmp_path / "counts") == [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 2]]


# Drivers that are killed, at each step of a commit


class Killed(BaseException):
    """The end of a driver, which cleans nothing up."""


def _killed_at(monkeypatch: pytest.MonkeyPatch, record: str) -> None:
    """Kill the driver before it writes a record of the journal."""
    write = commit_run.write

    def write_or_die(run, name, value=True):
        if name == record:
            raise Killed
        return write(run, name, value)

    monkeypatch.setattr(commit_run, "write", write_or_die)
    monkeypatch.setattr(run_batch, "undo_run", lambda opened: None)


@pytest.mark.parametrize(
    "record", ["decision", "attempt-0", "settled-1", "settled-2", "settled-0", "done", "never"]
)
def test_rows_come_once_if_the_driver_is_killed_within_the_commit(tmp_path, monkeypatch, capfd, record):
    stream = Stream(tmp_path, counts_and_windows(tmp_path), lag=2000, query="q")
    stream.batches(CLICKS[:2], CLICKS[2:3])
    with monkeypatch.context() as patched, nullcontext() if record == "never" else pytest.raises(Killed):
        _killed_at(patched, record)
        stream.batch(CLICKS[3:6], 2)
    stream.batches(CLICKS[3:6], CLICKS[6:], first=2)
    assert lines(tmp_path / "counts") == COUNTS
    assert lines(tmp_path / "windows") == WINDOWS
    assert not list(tmp_path.rglob(".penstock-runs/*"))
    undone = "ended before its commit; it is undone" in capfd.readouterr().err
    assert undone == (record == "decision")


@pytest.mark.parametrize(("record", "times"), [("decision", 2), ("attempt-0", 1), ("done", 1), ("never", 1)])
def test_lines_are_printed_at_least_once(tmp_path, monkeypatch, capfd, record, times):
    def build(clicks):
        clicks.process(Count(), COUNT).print()

    stream = Stream(tmp_path, build, query="q")
    with monkeypatch.context() as patched, nullcontext() if record == "never" else pytest.raises(Killed):
        _killed_at(patched, record)
        stream.batch(CLICKS[:2], 0)
    stream.batches(CLICKS[:2], CLICKS[2:3])
    printed = sorted(line.rpartition("> ")[2] for line in capfd.readouterr().out.splitlines())
    assert printed == sorted(["(ann,1)", "(bob,1)"] * times + ["(ann,2)"])


def test_a_function_that_fails_leaves_nothing_and_the_batch_runs_again(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path))
    stream.batch(CLICKS[:2], 0)
    with pytest.raises(UserFunctionError, match="NoneType"):
        stream.batch([("ann", 1, 1500), ("bob", None, 1600), ("dan", 1, 50_000)], 1)
    stream.batch([("bob", 2, 1600)], 1)
    assert lines(tmp_path / "counts") == [["ann", 1], ["bob", 1], ["bob", 2]]
    manifest = last_manifest(str(tmp_path / "state"))
    assert manifest is not None
    assert manifest["version"] == 2


# The same rows as from one bounded run, whatever the batches


class Everything(KeyedProcessFunction):
    """Uses each kind of state, and both kinds of timers' time domains that events decide."""

    def open(self, runtime_context):
        get = runtime_context
        self.last = get.get_state(ValueStateDescriptor("last", Types.ROW([Types.LONG(), Types.STRING()])))
        self.amounts = get.get_list_state(ListStateDescriptor("amounts", Types.LONG()))
        self.seen = get.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        self.most = get.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.mean = get.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, click, ctx):
        before = tuple(self.last.value() or ())
        self.last.update(Row(click.amount, f"at {click.at}"))
        self.amounts.add(click.amount)
        self.seen.put(click.amount % 3, (self.seen.get(click.amount % 3) or 0) + 1)
        self.most.add(click.amount)
        self.mean.add(click.amount)
        ctx.timer_service().register_event_time_timer(click.at + 7000)
        if click.amount == 5:
            ctx.timer_service().delete_event_time_timer(click.at + 3000)
        if sum(self.amounts.get()) > 40:
            self.amounts.clear()
            self.seen.remove(1)
        items = ",".join(f"{key}={value}" for key, value in sorted(self.seen.items()))
        yield (
            f"{click.user} {before} {list(self.amounts.get())} {items} {self.most.get()} {self.mean.get()}",
            click.at,
        )

    def on_timer(self, timestamp, ctx):
        # not the state: how far records are ahead of the watermark differs
        yield f"timer of {ctx.get_current_key()}", timestamp


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def added(a, b):
    return Row(user=b.user, amount=a.amount + b.amount, at=b.at)


def everything(folder: Path) -> Any:
    text = Types.TUPLE([Types.STRING(), Types.LONG()])

    def written(stream, name):
        stream.sink_to(JsonLinesSink(str(folder / name)))

    def build(clicks):
        written(clicks.process(Everything(), text), "states")
        written(clicks.reduce(added).map(tuple, SPENT), "reduced")
        sliding = clicks.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
        written(sliding.process(Spent(), SPENT), "sliding")
        # sessions that only touch merge or not, as the watermark goes: no two do here
        sessions = clicks.window(EventTimeSessionWindows.with_gap(Time.milliseconds(4250)))
        written(sessions.process(Spent(), SPENT), "sessions")
        written(sessions.aggregate(SumOf(), output_type=Types.LONG()), "session sums")
        written(clicks.count_window(3).reduce(added).map(tuple, SPENT), "counted")
        large = clicks.filter(lambda click: click.amount > 5).key_by(user_of, Types.STRING())
        small = clicks.filter(lambda click: click.amount < 4).key_by(user_of, Types.STRING())
        near = large.interval_join(small).between(Time.seconds(-3), Time.seconds(2))
        written(near.process(Pair(), SPENT), "joined")
        same = large.join(small).where(user_of).equal_to(user_of)
        same = same.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        written(same.apply(lambda a, b: (a.user, a.amount, b.amount), SPENT), "same windows")
        first = clicks.window(TumblingEventTimeWindows.of(Time.seconds(5))).process(Spent(), SPENT)
        again = first.key_by(lambda spent: spent[0], Types.STRING())
        again = again.window(TumblingEventTimeWindows.of(Time.seconds(20)))
        written(again.reduce(lambda a, b: (a[0], b[1], a[2] + b[2])), "windows of windows")
        everything_so_far = clicks.window(GlobalWindows.create()).trigger(CountTrigger.of(3))
        written(everything_so_far.reduce(added).map(tuple, SPENT), "global")
        of_all = clicks.map(lambda click: click, CLICK)
        of_all = of_all.window_all(TumblingEventTimeWindows.of(Time.seconds(9)))
        written(of_all.aggregate(SumOf(), output_type=Types.LONG()), "of all")
        early = clicks.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        early = early.trigger(PurgingTrigger.of(CountTrigger.of(2)))
        written(early.process(Spent(), SPENT), "early")

    return build


def user_of(click):
    return click.user


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left.user, left.at, right.at


class SumOf(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value.amount

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_batches_give_the_rows_of_one_bounded_run(tmp_path, seed):
    random = Random(seed)
    times = sorted(random.sample(range(0, 60_000, 500), 80))
    clicks = [(random.choice(("ann", "bob", "cat", "dan")), random.randint(1, 9), at) for at in times]
    clicks.append(("~end", 0, 10_000_000))
    cuts = sorted(random.sample(range(len(clicks)), 5))
    stream = Stream(tmp_path / "stream", everything(tmp_path / "stream"), keep=2)
    stream.batches(*(clicks[start:end] for start, end in pairwise([0, *cuts, len(clicks)])))
    bounded_rows(everything(tmp_path / "bounded"), clicks)
    for folder in sorted(path.name for path in (tmp_path / "bounded").iterdir()):
        whole, parts = (
            [row for row in lines(tmp_path / kind / folder) if row != 0 and "~end" not in json.dumps(row)]
            for kind in ("bounded", "stream")
        )
        assert parts == whole, folder
    manifest = last_manifest(str(tmp_path / "stream" / "state"))
    assert manifest is not None
    pickled = {
        (operator["name"], table["state"])
        for operator in manifest["operators"]
        for part in operator["parts"]
        for table in part["tables"]
        if "pickled" in table["type"]
    }
    # the accumulators that have no declared type
    assert {state for _, state in pickled} == {"window-contents"}
    assert not any("Join" in name for name, _ in pickled)


# A changed job: state is restored by operator, and key groups move


def counts(folder: Path, uid: str | None = "counts", *, before: bool = False) -> Any:
    def build(clicks):
        if before:
            clicks = clicks.map(lambda click: click, CLICK).key_by(lambda click: click.user, Types.STRING())
        counted = clicks.process(Count(), COUNT)
        if uid is not None:
            counted.uid(uid)
        counted.sink_to(JsonLinesSink(str(folder / "counts")))

    return build


def test_state_follows_the_uid_into_a_changed_job_and_another_parallelism(tmp_path):
    users = [(f"user{number}", 1, number) for number in range(40)]
    Stream(tmp_path, counts(tmp_path), parallelism=3).batch(users, 0)
    Stream(tmp_path, counts(tmp_path, before=True), parallelism=1).batch(users, 1)
    Stream(tmp_path, counts(tmp_path), parallelism=4).batches(users, users, first=2)
    expected = [[user, count] for user, _, _ in users for count in (1, 2, 3, 4)]
    assert lines(tmp_path / "counts") == sorted(expected, key=json.dumps)
    manifest = last_manifest(str(tmp_path / "state"))
    assert manifest is not None
    parts = manifest["operators"][0]["parts"]
    assert [part["first"] for part in parts] == [0, 32, 64, 96]
    # version 2 has merged those of version 1; a part has that one, and its own two
    assert [len(table["segments"]) for part in parts for table in part["tables"][2:]] == [3, 3, 3, 3]


def test_timers_move_with_their_key_groups(tmp_path):
    class Late(KeyedProcessFunction):
        def process_element(self, click, ctx):
            ctx.timer_service().register_event_time_timer(100_000 + click.amount)
            if click.amount == 3:
                ctx.timer_service().delete_event_time_timer(100_001)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    def build(clicks):
        clicks.process(Late(), COUNT).uid("late").sink_to(JsonLinesSink(str(tmp_path / "late")))

    users = [f"user{number}" for number in range(12)]
    Stream(tmp_path, build, parallelism=1).batch([(user, 1, 1) for user in users], 0)
    Stream(tmp_path, build, parallelism=3).batch([(user, 2, 2) for user in users[:6]], 1)
    Stream(tmp_path, build, parallelism=2).batch([(user, 3, 3) for user in users[:3]], 2)
    Stream(tmp_path, build, parallelism=2).batch([("end", 1, 150_000)], 3)
    expected = [[user, 100_001] for user in users[3:]]
    expected += [[user, 100_002] for user in users[:6]] + [[user, 100_003] for user in users[:3]]
    fired = [row for row in lines(tmp_path / "late") if row[0] != "end"]
    assert fired == sorted(expected, key=json.dumps)


def test_state_without_its_operator_is_refused_or_dropped(tmp_path):
    Stream(tmp_path, counts(tmp_path)).batch(CLICKS[:2], 0)
    with pytest.raises(JobCompileError, match="because the operator is not available in the new program"):
        Stream(tmp_path, counts(tmp_path, uid="other")).batch(CLICKS[2:3], 1)
    Stream(tmp_path, counts(tmp_path, uid="other"), allow_non_restored_state=True).batch(CLICKS[2:3], 1)
    assert lines(tmp_path / "counts") == [["ann", 1], ["ann", 1], ["bob", 1]]


def test_another_max_parallelism_and_another_type_are_refused(tmp_path):
    Stream(tmp_path, counts(tmp_path)).batch(CLICKS[:2], 0)

    def wider(clicks):
        counted = clicks.process(Count(), COUNT).uid("counts").set_max_parallelism(256)
        counted.sink_to(JsonLinesSink(str(tmp_path / "counts")))

    mismatch = (
        r"max parallelism 128 to new program with max parallelism 256[\s\S]*'KEYED PROCESS', uid 'counts'"
    )
    with pytest.raises(JobCompileError, match=mismatch):
        Stream(tmp_path, wider).batch(CLICKS[2:3], 1)

    class CountText(Count):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.STRING()))

    def as_text(clicks):
        clicks.process(CountText(), COUNT).uid("counts").sink_to(JsonLinesSink(str(tmp_path / "counts")))

    with pytest.raises(UserFunctionError, match=r"new state serializer of state 'counts' .* incompatible"):
        Stream(tmp_path, as_text).batch(CLICKS[2:3], 1)


def test_a_job_without_max_parallelism_takes_those_of_its_state(tmp_path):
    def two_counts(most: int | None) -> Any:
        def build(clicks):
            for uid in ("set", "derived"):
                counted = clicks.process(Count(), COUNT).uid(uid)
                if most is not None and uid == "set":
                    counted.set_max_parallelism(most)
                counted.sink_to(JsonLinesSink(str(tmp_path / uid)))

        return build

    users = [(f"user{number}", 1, number) for number in range(30)]
    Stream(tmp_path, two_counts(64)).batch(users, 0)
    Stream(tmp_path, two_counts(None), parallelism=3).batch(users, 1)
    for uid in ("set", "derived"):
        assert lines(tmp_path / uid) == sorted([user, count] for user, _, _ in users for count in (1, 2))
    manifest = last_manifest(str(tmp_path / "state"))
    assert manifest is not None
    assert {entry["uid"]: entry["max_parallelism"] for entry in manifest["operators"]} == {
        "set": 64,
        "derived": 128,
    }
    with pytest.raises(
        JobCompileError, match=r"\(64\) of the restored state is lower than the configured parallelism \(65\)"
    ):
        Stream(tmp_path, two_counts(None), parallelism=65).batch(users, 2)


@pytest.mark.parametrize(
    ("number", "query", "problem"),
    [(2, "q", "the rows between are missing"), (0, "other", "may read the same rows again")],
)
def test_a_batch_that_does_not_follow_is_refused_unless_it_is_allowed(tmp_path, number, query, problem):
    Stream(tmp_path, counts(tmp_path), query="q").batch(CLICKS[:2], 0)
    with pytest.raises(ConfigurationError, match=problem):
        Stream(tmp_path, counts(tmp_path), query=query).batch(CLICKS[2:3], number)
    assert Stream(tmp_path, counts(tmp_path), query=query, new_query=True).batch(CLICKS[2:3], number)
    assert lines(tmp_path / "counts") == [["ann", 1], ["ann", 2], ["bob", 1]]


class Own(Sink):
    """A sink of a user, with a commit of its own."""

    def commit(self, committables):
        """Publish nothing."""


def _in_batch_mode(clicks: Any) -> None:
    clicks._environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    clicks.process(Count(), COUNT).print()


REFUSED: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "a source of its own": (
        lambda clicks: clicks._environment.from_collection([1, 2], Types.LONG()).print(),
        r"operator 'Source: .*' is a source of its own",
        "join its rows to the DataFrame",
    ),
    "aggregate": (
        lambda clicks: (
            clicks.map(lambda click: click, CLICK).key_by("user").aggregate([("amount", "sum")]).print()
        ),
        r"operator '.*' has results at the end of the input",
        "use a window or reduce",
    ),
    "a sink of its own": (
        lambda clicks: clicks.process(Count(), COUNT).sink_to(Own()),
        r"sink '.*' is of a class of yours",
        "use files, Delta, or into=",
    ),
    "BATCH mode": (_in_batch_mode, "its runtime mode must be STREAMING, got BATCH", "penstock.transform"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_parts_that_cannot_run_batch_by_batch_are_refused_by_name(tmp_path, kind):
    build, problem, way_on = REFUSED[kind]
    with pytest.raises(JobCompileError, match=problem) as refused:
        Stream(tmp_path, build).batch(CLICKS[:1], 0)
    assert way_on in str(refused.value)
    assert last_manifest(str(tmp_path / "state")) is None


def test_all_refusals_of_a_job_come_together(tmp_path):
    def build(clicks):
        for kind in ("a source of its own", "aggregate"):
            REFUSED[kind][0](clicks)

    with pytest.raises(JobCompileError, match=r"source of its own[\s\S]*end of the input"):
        Stream(tmp_path, build).batch(CLICKS[:1], 0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"build": 1}, "build must be a function of a stream, got int"),
        ({"into": "table"}, "into must be a function of a DataFrame, got str"),
        ({"keep": 0}, "keep must be"),
        ({"parallelism": 0}, "parallelism must be"),
        ({"state": ""}, "state must be a path"),
    ],
)
def test_wrong_arguments_are_named(arguments, problem):
    given: dict[str, Any] = {"build": lambda stream: None, "state": "state", **arguments}
    with pytest.raises(ConfigurationError, match=problem):
        penstock.foreach_batch(given.pop("build"), **given)


def test_a_function_that_spark_connect_would_send_is_refused(tmp_path):
    function = penstock.foreach_batch(lambda stream: stream.print(), state=tmp_path / "state")
    with pytest.raises(ConfigurationError, match="needs a classic session, got one of Spark Connect"):
        dumps_for_workers(function)


def test_a_topology_without_a_reader_of_its_rows_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="build must end in sinks, got a stream"):
        Stream(tmp_path, lambda clicks: clicks.process(Count(), COUNT)).batch(CLICKS[:1], 0)
    with pytest.raises(ConfigurationError, match="got a topology without one"):
        Stream(tmp_path, lambda clicks: None).batch(CLICKS[:1], 0)


# Broadcast state, which each subtask has


FACTORS = MapStateDescriptor("factors", Types.STRING(), Types.LONG())


class Priced(BroadcastProcessFunction[Any, Any, Any]):
    """Multiplies amounts by the factor of their user, which records of an amount below 0 set."""

    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(FACTORS).get(value.user)
        yield value.user, value.amount * (factor or 1)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(FACTORS).put(value.user, -value.amount)


class KeyedPriced(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """The same, with the number of the user's records before the amount."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("factors", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        for user, priced in Priced.process_element(self, value, ctx):  # type: ignore[arg-type]
            yield f"{user} {count}", priced

    process_broadcast_element = Priced.process_broadcast_element


def priced(folder: Path, keyed: bool) -> Any:
    def build(clicks):
        changes = clicks.filter(lambda click: click.amount < 0).broadcast(FACTORS)
        amounts = clicks.filter(lambda click: click.amount >= 0)
        if keyed:
            out = amounts.key_by(user_of, Types.STRING()).connect(changes).process(KeyedPriced(), COUNT)
        else:
            out = amounts.connect(changes).process(Priced(), COUNT)
        out.uid("priced").sink_to(JsonLinesSink(str(folder / "priced")))

    return build


@pytest.mark.parametrize("keyed", [False, True])
def test_broadcast_state_lasts_in_any_parallelism(tmp_path, keyed):
    users = ["ann", "bob", "cat", "dan"]
    factors = [("ann", -3, 0), ("bob", -5, 1)]
    Stream(tmp_path, priced(tmp_path, keyed), parallelism=2).batches(factors, [("ann", 1, 2), ("bob", 1, 3)])
    amounts = [(user, 2, 10 + at) for at, user in enumerate(users)]
    Stream(tmp_path, priced(tmp_path, keyed), parallelism=3).batches(amounts, [("ann", -7, 20)], first=2)
    Stream(tmp_path, priced(tmp_path, keyed), parallelism=1).batch(amounts, 4)
    rows = [("ann", 1, 3), ("bob", 1, 5), ("ann", 2, 6), ("bob", 2, 10), ("cat", 1, 2), ("dan", 1, 2)]
    rows += [("ann", 3, 14), ("bob", 3, 10), ("cat", 2, 2), ("dan", 2, 2)]
    expected = [[f"{user} {count}" if keyed else user, amount] for user, count, amount in rows]
    assert lines(tmp_path / "priced") == sorted(expected, key=json.dumps)
    opened = penstock.open_state(tmp_path / "state")
    (table,) = (row for row in opened.tables().to_pylist() if row["kind"] == "broadcast")
    assert (table["state"], table["uid"], table["rows"]) == ("factors", "priced", 1)
    assert table["type"] == "Map(String, Long)"
    if not keyed:
        (row,) = opened.table("factors").to_pylist()
        assert dict(row["value"]) == {"ann": 7, "bob": 5}


def test_broadcast_state_of_another_type_is_refused(tmp_path):
    Stream(tmp_path, priced(tmp_path, False)).batch([("ann", -3, 0)], 0)

    class Other(Priced):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(MapStateDescriptor("factors", Types.STRING(), Types.STRING())).get("ann")
            yield value.user, 0

    def build(clicks):
        changes = clicks.filter(lambda click: click.amount < 0).broadcast(
            MapStateDescriptor("factors", Types.STRING(), Types.STRING())
        )
        out = clicks.filter(lambda click: True).connect(changes).process(Other(), COUNT)
        out.uid("priced").sink_to(JsonLinesSink(str(tmp_path / "priced")))

    with pytest.raises(UserFunctionError, match=r"state 'factors' .* was broadcast of Map\(String, Long\)"):
        Stream(tmp_path, build).batch(CLICKS[:1], 1)
    assert last_manifest(str(tmp_path / "state"))["version"] == 1  # type: ignore[index]


# Processing time, lifetimes, much state, many versions


def test_processing_time_timers_and_lifetimes_go_on(tmp_path):
    class Seen(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("seen", Types.LONG())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            self.seen = runtime_context.get_state(descriptor)
            listed = ListStateDescriptor("listed", Types.LONG())
            listed.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            self.listed = runtime_context.get_list_state(listed)

        def process_element(self, click, ctx):
            seen = (self.seen.value() or 0) + 1
            self.seen.update(seen)
            self.listed.add(click.amount)
            ctx.timer_service().register_processing_time_timer(1)
            yield f"{click.user} {seen} {list(self.listed.get())}", 0

        def on_timer(self, timestamp, ctx):
            yield f"timer of {ctx.get_current_key()}", timestamp

    def build(clicks):
        clicks.process(Seen(), COUNT).sink_to(JsonLinesSink(str(tmp_path / "out")))

    stream = Stream(tmp_path, build, event_time=False)
    stream.batches([("ann", 1, 0)], [("ann", 2, 0), ("bob", 3, 0)], [])
    assert lines(tmp_path / "out") == [
        ["ann 1 [1]", 0],
        ["ann 2 [1, 2]", 0],
        ["bob 1 [3]", 0],
        ["timer of ann", 1],
        ["timer of ann", 1],
        ["timer of bob", 1],
    ]


def test_state_beyond_memory_and_many_versions(tmp_path):
    def build(clicks):
        counted = clicks.process(Count(), COUNT)
        counted.sink_to(JsonLinesSink(str(tmp_path / "counts")))

    stream = Stream(tmp_path, build, keep=3, config={"penstock.state.memory-bytes": "20000"})
    users = [(f"user{number}", 1, 0) for number in range(400)]
    rounds = 14
    for number in range(rounds):
        stream.batch(users[:: 1 + number % 3], number)
    times = {
        user: sum(place % (1 + number % 3) == 0 for number in range(rounds))
        for place, (user, _, _) in enumerate(users)
    }
    expected = [[user, count] for user, most in times.items() for count in range(1, most + 1)]
    assert lines(tmp_path / "counts") == sorted(expected, key=json.dumps)
    assert len(versions_in(str(tmp_path / "state"))) <= 2 * 3
    manifest = last_manifest(str(tmp_path / "state"))
    assert manifest is not None
    on_disk = {file.name for file in (tmp_path / "state" / "segments").iterdir()}
    assert segments_of(manifest) <= on_disk
    assert len(segments_of(manifest)) <= 2 * 11
