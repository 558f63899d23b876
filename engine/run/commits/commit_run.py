"""The commit of all sinks of a run as one: prepared, decided, published.

Until the decision is recorded nothing is visible, and whatever happens undoes the run. From then on the run
will be published: by this process, or by the next run of the job, or by `penstock recover`.

Source: org.apache.flink.streaming.runtime.operators.sink.CommitterOperator, for the order of things.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Self

from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.machine.run_owner import this_process
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.errors import CommitError, JobCancelledError, NeedsItsJobError
from penstock.engine.run.commits.journal import JournalRun, SinkOfRun
from penstock.operators.connectors.recover_sinks import KINDS, needs_commit, recovery_of
from penstock.operators.connectors.sink import Committable, LostCommitError, Sink
from penstock.plans.errors import PenstockError

_HEARTBEAT_SECONDS = 60.0

#: Ids of the runs that this process is working on.
active_runs: set[str] = set()


@dataclass(frozen=True)
class NamedSink:
    """A sink and the name of its operator."""

    name: str
    sink: Sink


@dataclass
class OpenRun:
    """A run from its start to its end; `close` it."""

    run: JournalRun
    sinks: list[Sink]  #: in the order of `run.sinks`
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        active_runs.discard(self.run.run_id)


def begin_run(run_id: str, job: str, fingerprint: str, named_sinks: Sequence[NamedSink]) -> OpenRun:
    """Open a run over the started sinks `named_sinks`, with a journal if any sink needs a commit.

    Raises OSError if a folder that a sink writes into cannot be created or written to.
    """
    committed = [named_sink for named_sink in named_sinks if needs_commit(named_sink.sink)]
    sinks = tuple(_described(named_sink) for named_sink in committed)
    folders = tuple(
        dict.fromkeys(
            committed_sink.recovery.folder for committed_sink in sinks if committed_sink.recovery is not None
        )
    )
    run = JournalRun(
        run_id=run_id,
        job=job,
        fingerprint=fingerprint,
        started_at=time.time(),
        owner=this_process(),
        folders=folders or (journal.state_folder(),),
        sinks=sinks,
    )
    opened = OpenRun(run, [named_sink.sink for named_sink in committed])
    if sinks:
        active_runs.add(run_id)
        try:
            opened.run = journal.begin_journal(run)
            for sink in opened.sinks:
                sink.begin()
        except BaseException:
            active_runs.discard(run_id)
            with suppress(OSError):
                undo_run(opened)
            raise
        threading.Thread(target=_beat, args=(opened,), name="penstock-heartbeat", daemon=True).start()
    return opened


def commit_run(opened: OpenRun, committables: Sequence[list[Committable]]) -> None:
    """Prepare all sinks, then publish all; `committables` are in the order of the sinks.

    Raises CommitError if a sink cannot be prepared or another process has undone the run (the caller then
    calls `undo_run`), and if a sink could not be published: then the journal stays and says what is left to
    do. Ctrl-C while sinks are published raises JobCancelledError with the same message.
    """
    run = opened.run
    if not opened.sinks:
        return
    prepared = tuple(_prepared(opened, number, of_sink) for number, of_sink in enumerate(committables))
    names = [sink.name for sink in run.sinks]
    # with arguments that preparing has found out
    sinks = tuple(_described(NamedSink(name, sink)) for name, sink in zip(names, opened.sinks, strict=True))
    if not journal.decide_to_publish(run, sinks, prepared):
        raise CommitError(
            f"job {run.job!r}: another process took its run {run.short_id} for dead and has undone it; "
            "nothing of it is committed",
            "run the job again",
        )
    number = 0
    try:
        journal.write(run, "attempt-0")
        for number in publishing_order(sinks):
            opened.sinks[number].commit(prepared[number])
            journal.write(run, f"settled-{number}")
        journal.write(run, "done")
    except (Exception, KeyboardInterrupt) as error:
        with suppress(OSError):
            journal.write(run, "failed", reason(error))
        kind = JobCancelledError if isinstance(error, KeyboardInterrupt) else CommitError
        raise with_exit_code_of_disk(kind(*unfinished(run, number, error))) from error


def class_name(sink: Sink) -> str:
    """The class of a sink, with its module."""
    return f"{type(sink).__module__}.{type(sink).__qualname__}"


def undo_run(opened: OpenRun) -> None:
    """Remove everything that the run has staged, and its journal, unless it is to be published."""
    if not opened.run.parts:
        return  # it has no sinks, or did not begin
    decision = journal.decision_of(opened.run)
    if decision is not None and decision.publish:
        return
    for sink in opened.sinks:
        sink.abort()
    journal.forget(opened.run)


def publishing_order(sinks: Sequence[SinkOfRun]) -> list[int]:
    """Sinks that may refuse a commit come before those that only rename files: their numbers."""
    first = [None, *reversed(KINDS)]
    return sorted(
        range(len(sinks)),
        key=lambda number: first.index(recovery.kind if (recovery := sinks[number].recovery) else None),
    )


def unfinished(run: JournalRun, failed: int, error: BaseException) -> tuple[str, str]:
    """Message and hint where sink number `failed` could not be published."""
    written = journal.records(run)
    settled = [sink.name for number, sink in enumerate(run.sinks) if f"settled-{number}" in written]
    waiting = [sink.name for number, sink in enumerate(run.sinks) if f"settled-{number}" not in written]
    places = " ".join(map(shlex.quote, run.folders))
    abandon = f"`penstock recover --abandon {run.short_id} {places}` gives up what is not published"
    failure = f"sink {_shown(run.sinks[failed])} failed: {reason(error)}"
    if isinstance(error, LostCommitError):
        again = f", into {_listed(settled)} a second time" if settled else ""
        return (
            f"job {run.job!r}: the commit of run {run.short_id} cannot be finished: {failure}\n"
            f"  published: {_listed(settled)}; not published: {_listed(waiting)}",
            f"{abandon}; after that, the job writes all its rows when it is run again{again}",
        )
    return (
        f"job {run.job!r}: the commit of run {run.short_id} is not finished: {failure}\n"
        f"  published: {_listed(settled)}; not yet: {_listed(waiting)}, whose rows are written and kept",
        "when the cause is gone, run the job again, or "
        f"`penstock recover {places}`: either publishes the rest, no row twice; {abandon}",
    )


def reason(error: BaseException) -> str:
    """An error in words."""
    plain = isinstance(error, PenstockError | ValueError | OSError | NeedsItsJobError)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def _prepared(opened: OpenRun, number: int, committables: list[Committable]) -> list[Committable]:
    run, sink = opened.run, opened.sinks[number]
    try:
        prepared = sink.prepare(committables)
        for committable in prepared:
            json.dumps(asdict(committable))
    except Exception as error:
        raise with_exit_code_of_disk(
            CommitError(
                f"job {run.job!r}: sink {_shown(run.sinks[number])} cannot be committed: {reason(error)}; "
                "nothing of the job is committed"
            )
        ) from error
    return prepared


def _described(named_sink: NamedSink) -> SinkOfRun:
    return SinkOfRun(
        name=named_sink.name,
        write_id=named_sink.sink.write_id,
        class_name=class_name(named_sink.sink),
        recovery=recovery_of(named_sink.sink),
    )


def _shown(sink: SinkOfRun) -> str:
    return repr(sink.name) if sink.recovery is None else f"{sink.name!r} ({sink.recovery.folder})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _beat(opened: OpenRun) -> None:
    number = 0
    while not opened._stop.wait(_HEARTBEAT_SECONDS):
        number += 1
        with suppress(OSError):
            journal.heartbeat(opened.run, number)
