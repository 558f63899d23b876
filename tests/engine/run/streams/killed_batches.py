"""Lives of a driver, without Spark: each runs batches in a process of its own, until it is killed.

A life is killed before or after a call that changes files: fsync, link, rename, unlink, mkdir, and
transactions of Delta. The next life repeats the batch, as Spark does, and goes on.
"""

import multiprocessing
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

import penstock
from penstock.common import Row, Time, Types
from penstock.connectors import DeltaSink, JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.run.commits import journal
from penstock.operators.connectors import commit_delta, state_sink
from penstock.operators.state import stored_state
from tests.engine.run.streams.batches_in_process import Stream, in_process, lines
from tests.engine.run.streams.test_batches_of_streams import SPENT, Spent

COUNTS = Types.ROW_NAMED(["user", "count"], [Types.STRING(), Types.LONG()])
_CALLS = ("fsync", "link", "rename", "unlink", "mkdir")


def rows_of(number: int) -> list[tuple[str, int, int]]:
    """The rows of a batch."""
    draw = Random(number)
    return [(f"user{draw.randrange(6)}", 1, number * 1000 + place * 50) for place in range(20)]


def live(folder: Path, first: int, last: int, killed_at: int) -> int:
    """Run batches `first` to `last` in a process of its own, killed at its call number `killed_at`.

    Return the batch that it ended in; `last` + 1 if it has done all.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    life = context.Process(target=_live, args=(folder, first, last, killed_at))
    life.start()
    life.join()
    reached = int((folder / "reached").read_text())
    if life.exitcode == 0:
        return last + 1
    assert life.exitcode == -signal.SIGKILL, life.exitcode
    return reached


def _live(folder: Path, first: int, last: int, killed_at: int) -> None:
    patch = pytest.MonkeyPatch()
    in_process.__wrapped__(patch)  # type: ignore[attr-defined]
    for module in (journal, state_sink):
        patch.setattr(module, "_SECONDS_BEFORE_REMOVAL", 0)
    patch.setattr(stored_state, "_MOST_SEGMENTS", 3)
    patch.setattr(stored_state, "_CHANGES_PER_SNAPSHOT", 2)
    calls = 0

    def come() -> None:
        nonlocal calls
        calls += 1
        if calls == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def before_and_after(*arguments: Any, **named: Any) -> Any:
            come()
            result = call(*arguments, **named)
            come()
            return result

        patch.setattr(owner, name, before_and_after)

    for name in _CALLS:
        counted(os, name)
    counted(commit_delta, "_commit")
    stream = Stream(folder, _build(folder), query="q", keep=2)
    for number in range(first, last + 1):
        (folder / "reached").write_text(str(number))
        stream.batch(rows_of(number), number)


def _build(folder: Path) -> Any:
    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

        def process_element(self, click, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield Row(user=click.user, count=count)

    def build(clicks: Any) -> None:
        counted = clicks.process(Count(), COUNTS).uid("count")
        counted.sink_to(JsonLinesSink(str(folder / "counts"), COUNTS))
        counted.sink_to(DeltaSink(str(folder / "table"), COUNTS))
        windows = clicks.window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
        windows.process(Spent(), SPENT).uid("windows").sink_to(JsonLinesSink(str(folder / "windows")))

    return build


def faults(folder: Path, batches: int) -> list[str]:
    """How the rows there differ from those that `batches` batches must write; leftovers of kills."""
    users = Counter(user for number in range(batches) for user, _, _ in rows_of(number))
    counts = Counter((user, count) for user, most in users.items() for count in range(1, most + 1))
    spent: Counter[tuple[str, int]] = Counter()
    for number in range(batches):
        for user, amount, at in rows_of(number):
            spent[user, at // 500 * 500 + 500] += amount
    windows = Counter((user, end, amount) for (user, end), amount in spent.items() if end < batches * 1000)
    table = DeltaTable(folder / "table").to_pyarrow_table().to_pylist()
    state = penstock.open_state(folder / "state")
    found: dict[str, tuple[Counter[Any], Counter[Any]]] = {
        "files": (Counter((row["user"], row["count"]) for row in lines(folder / "counts")), counts),
        "table": (Counter((row["user"], row["count"]) for row in table), counts),
        "windows": (Counter(map(tuple, lines(folder / "windows"))), windows),
        "state": (
            Counter({row["key"]: row["value"] for row in state.table("counts").to_pylist()}),
            users,
        ),
    }
    wrong = [
        f"{name}: {(expected - rows).total()} lost, {(rows - expected).total()} twice"
        for name, (rows, expected) in found.items()
        if rows != expected
    ]
    left = [path for path in folder.rglob(".*") if path.name != ".penstock-runs" or any(path.iterdir())]
    return wrong + [f"{path.relative_to(folder)} is left" for path in left]
