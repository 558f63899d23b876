"""Commit all sinks of a run as one, in three steps: prepare them, record the decision, publish.

Until the decision is recorded nothing is visible, and any failure undoes the run. From then on the run will
be published: by this process, by the next run of the job, or by `penstock recover`.

Source: org.apache.flink.streaming.runtime.operators.sink.CommitterOperator, for the order of these steps.
"""

from __future__ import annotations

import json
import posixpath
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from pyarrow import fs

from penstock.engine.machine.folders import Liveness, liveness, this_process
from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.output.print_line import print_message
from penstock.engine.run.commits.journal import (
    JournalRun,
    RunDecision,
    SinkOfRun,
    begin_journal,
    decision_in,
    forget,
    process_in,
    runs_in,
    state_folder,
)
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import KINDS, needs_commit, recovery_of
from penstock.operators.connectors.sink import Committable, LostCommitError, Sink
from penstock.operators.files.durable_files import (
    read_bytes_once_written,
    remove_once_written,
    write_once,
)
from penstock.plans.errors import JobCancelledError, PenstockError


class CommitError(PenstockError):
    """Some or all sinks of a run are not committed; message and hint name them and the next step."""


class NeedsItsJobError(Exception):
    """A sink's class is the user's own, so only the job itself can finish its commit."""


# The records in the home of a run.


def is_known(run: JournalRun) -> bool:
    """Whether the home still has the run; False once it is finished or undone, and its journal removed."""
    return read(run, "owner") is not None


def write(run: JournalRun, record: str, value: Any = True) -> bool:
    """Write a record into the home; return False if it exists already, or the journal has been removed."""
    system, home = run.home
    try:
        return write_once(system, posixpath.join(home, record), value)
    except FileNotFoundError:
        return False


def read(run: JournalRun, record: str) -> Any:
    """Return a record of the home; None if it does not exist. Raises OSError and, if damaged, ValueError."""
    record_json = _bytes(run, record)
    return None if record_json is None else json.loads(record_json)


def records(run: JournalRun) -> dict[str, float]:
    """Return the names of the home's records, each with its time in seconds since the epoch."""
    system, home = run.home
    entries = system.get_file_info(fs.FileSelector(home, allow_not_found=True))
    return {entry.base_name: entry.mtime.timestamp() if entry.mtime else 0.0 for entry in entries}


def decision_of(run: JournalRun) -> RunDecision | None:
    """Return the decision, with current paths; None if there is none. Errors as in `read`."""
    decision_json = _bytes(run, "decision")
    return None if decision_json is None else decision_in(run, decision_json)


def _bytes(run: JournalRun, record: str) -> bytes | None:
    system, home = run.home
    return read_bytes_once_written(system, posixpath.join(home, record))


# The run of this process, from its start to the end of its commit.


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
    """A run from its start to its end; a context manager."""

    run: JournalRun
    sinks: list[Sink]  #: in the order of `run.sinks`
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        active_runs.discard(self.run.run_id)


def begin_run(run_id: str, job: str, fingerprint: str, named_sinks: Sequence[NamedSink]) -> OpenRun:
    """Open a run with the started sinks `named_sinks`, and a journal if any of them needs a commit.

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
        folders=folders or (state_folder(),),
        sinks=sinks,
    )
    opened = OpenRun(run, [named_sink.sink for named_sink in committed])
    if sinks:
        active_runs.add(run_id)
        try:
            opened.run = begin_journal(run)
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
    calls `undo_run`), and if a sink could not be published: then the journal stays and lists the remaining
    steps. Ctrl-C while sinks are published raises JobCancelledError with the same message.
    """
    run = opened.run
    if not opened.sinks:
        return
    prepared = tuple(_prepared(opened, number, staged) for number, staged in enumerate(committables))
    names = [sink.name for sink in run.sinks]
    # described again, because preparing a sink may change its arguments
    sinks = tuple(_described(NamedSink(name, sink)) for name, sink in zip(names, opened.sinks, strict=True))
    if not _decide_to_publish(run, sinks, prepared):
        raise CommitError(
            f"job {run.job!r}: another process considered its run {run.short_id} dead and has undone it; "
            "nothing of it is committed",
            "run the job again",
        )
    number = 0
    try:
        write(run, "attempt-0")
        for number in _publishing_order(sinks):
            opened.sinks[number].commit(prepared[number])
            write(run, f"settled-{number}")
        write(run, "done")
    except (Exception, KeyboardInterrupt) as error:
        with suppress(OSError):
            write(run, "failed", reason(error))
        kind = JobCancelledError if isinstance(error, KeyboardInterrupt) else CommitError
        raise with_exit_code_of_disk(kind(*_unfinished(run, number, error))) from error


def _decide_to_publish(
    run: JournalRun, sinks: Sequence[SinkOfRun], committables: Sequence[list[Committable]]
) -> bool:
    """Record the decision to publish; return False if a decision exists, or the journal has been removed."""
    as_dicts = [[asdict(committable) for committable in staged] for staged in committables]
    decision = {"publish": True, "sinks": [asdict(sink) for sink in sinks], "committables": as_dicts}
    return write(run, "decision", decision)


def _class_name(sink: Sink) -> str:
    """Return the class name of a sink, with its module."""
    return f"{type(sink).__module__}.{type(sink).__qualname__}"


def undo_run(opened: OpenRun) -> None:
    """Remove the run's staged files and its journal, unless the decision is to publish it."""
    if not opened.run.parts:
        return  # it has no sinks, or did not begin
    decision = decision_of(opened.run)
    if decision is not None and decision.publish:
        return
    for sink in opened.sinks:
        sink.abort()
    forget(opened.run)


def _publishing_order(sinks: Sequence[SinkOfRun]) -> list[int]:
    """Return the numbers of sinks, those that may refuse a commit before sinks that only rename files."""
    first = [None, *reversed(KINDS)]
    return sorted(
        range(len(sinks)),
        key=lambda number: first.index(recovery.kind if (recovery := sinks[number].recovery) else None),
    )


def _unfinished(run: JournalRun, failed: int, error: BaseException) -> tuple[str, str]:
    """Return message and hint for a run whose sink number `failed` could not be published."""
    written = records(run)
    published = [sink.name for number, sink in enumerate(run.sinks) if f"settled-{number}" in written]
    waiting = [sink.name for number, sink in enumerate(run.sinks) if f"settled-{number}" not in written]
    places = " ".join(map(shlex.quote, run.folders))
    abandon = f"`penstock recover --abandon {run.short_id} {places}` discards the unpublished rows"
    failure = f"sink {_describe_sink(run.sinks[failed])} failed: {reason(error)}"
    if isinstance(error, LostCommitError):
        again = f", into {_listed(published)} a second time" if published else ""
        return (
            f"job {run.job!r}: the commit of run {run.short_id} cannot be finished: {failure}\n"
            f"  published: {_listed(published)}; not published: {_listed(waiting)}",
            f"{abandon}; after that, the job writes all its rows when it is run again{again}",
        )
    return (
        f"job {run.job!r}: the commit of run {run.short_id} is not finished: {failure}\n"
        f"  published: {_listed(published)}; not yet: {_listed(waiting)}, whose rows are staged",
        "when the cause is removed, run the job again, or "
        f"`penstock recover {places}`: either publishes the rest, no row twice; {abandon}",
    )


def reason(error: BaseException) -> str:
    """Return the message of an error, with its class if it is an unexpected one."""
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
                f"job {run.job!r}: sink {_describe_sink(run.sinks[number])} cannot be committed: "
                f"{reason(error)}; nothing of the job is committed"
            )
        ) from error
    return prepared


def _described(named_sink: NamedSink) -> SinkOfRun:
    return SinkOfRun(
        name=named_sink.name,
        write_id=named_sink.sink.write_id,
        class_name=_class_name(named_sink.sink),
        recovery=recovery_of(named_sink.sink),
    )


def _describe_sink(sink: SinkOfRun) -> str:
    return repr(sink.name) if sink.recovery is None else f"{sink.name!r} ({sink.recovery.folder})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _beat(opened: OpenRun) -> None:
    number = 0
    while not opened._stop.wait(_HEARTBEAT_SECONDS):
        number += 1
        with suppress(OSError):
            heartbeat(opened.run, number)


def heartbeat(run: JournalRun, number: int) -> None:
    """Record that the owner is running."""
    write(run, f"alive-{number}")
    system, home = run.home
    with suppress(FileNotFoundError):
        remove_once_written(system, posixpath.join(home, f"alive-{number - 1}"))


# Finishing or undoing a run whose owner has gone.


#: A run on a machine that cannot be queried is given up after this time without a sign of life.
LONGEST_SILENCE_SECONDS = 86_400.0

State = Literal["running", "elsewhere", "undecided", "publishing", "undoing", "done"]

#: Returns the job's own sink for sink number n of a run, which only the job can finish; None if it has none.
OwnSink = Callable[[JournalRun, int], Sink | None]

#: Storage options by folder.
Options = Mapping[str, Mapping[str, str]]

_NO_OPTIONS: Options = {}


def no_own_sink(run: JournalRun, number: int) -> Sink | None:
    """Return None, as the OwnSink of callers other than the job, which have no sinks of its classes."""
    return None


def state_of(run: JournalRun) -> State:
    """Return the state of a run, which determines the next step.

    "running": nothing to do, its owner is alive. "elsewhere": nothing to do, its owner may be alive on
    another machine. "undecided" and "undoing": undo it. "publishing": publish the rest. "done": remove its
    journal.
    """
    return _state_and_owner(run)[0]


def _state_and_owner(run: JournalRun) -> tuple[State, Liveness]:
    """Return the state of a run, and whether its owner is alive."""
    # in this order: the decision of an owner that was dead before does not change any more
    written = records(run)
    owner = liveness(run.owner)
    if not _is_abandoned(run, written, owner):
        return "running", owner
    decision = decision_of(run)
    if decision is not None:
        if not decision.publish:
            return "undoing", owner
        return "done" if "done" in written else "publishing", owner
    if owner == "unknown":
        signs = [at for name, at in written.items() if name == "owner" or name.startswith("alive-")]
        if time.time() - max(signs, default=run.started_at) < LONGEST_SILENCE_SECONDS:
            return "elsewhere", owner
    return "undecided", owner


def _is_abandoned(run: JournalRun, written: Mapping[str, float], owner: Liveness) -> bool:
    if "failed" in written:
        return True
    if run.owner == this_process():
        return run.run_id not in active_runs
    return owner != "alive"


def publish_rest(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> None:
    """Publish the remaining sinks of a run in state "publishing"; the journal stays, marked as done.

    Raises CommitError if a sink cannot be published, after publishing the others.
    """
    decision = decision_of(run)
    if decision is None:
        return  # another process has finished it and removed the journal
    attempts = sum(name.startswith("attempt-") for name in records(run))
    write(run, f"attempt-{attempts}")
    failed: tuple[int, Exception] | None = None
    for number in _publishing_order(decision.sinks):
        if read(run, f"settled-{number}"):
            continue
        try:
            _publish(run, decision, number, attempts, own_sink, options)
        except Exception as error:
            failed = failed or (number, error)
        else:
            write(run, f"settled-{number}")
    if failed is not None and is_known(run):
        raise CommitError(*_unfinished(run, *failed)) from failed[1]
    write(run, "done")


def undo(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> bool:
    """Remove the staged files and the journal of a run in state "undecided" or "undoing".

    Return False if its owner has decided to publish it meanwhile.
    """
    write(run, "decision", {"publish": False})
    decision = decision_of(run)
    if decision is not None and decision.publish:
        return False
    remove_staged(run, own_sink, options)
    return True


def remove_staged(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> None:
    """Remove the staged, unpublished files of a run, and its journal."""
    for number, sink in enumerate(run.sinks):
        if sink.recovery is not None:
            if run.has_part_in(sink.recovery.folder):  # else the folder was replaced, or holds nothing of it
                storage_options = options.get(sink.recovery.folder)
                KINDS[sink.recovery.kind].undo(sink.recovery, sink.write_id, storage_options)
        elif (own := own_sink(run, number)) is not None:
            own.abort()
    forget(run)


def claim(run: JournalRun) -> bool:
    """Claim a published run for this process, which repeats it; return False if another live process has."""
    number = 0
    while (claimed_json := _bytes(run, f"claimed-{number}")) is not None:
        claimed = process_in(claimed_json)
        if claimed != this_process() and liveness(claimed) != "dead":
            return False
        number += 1
    return write(run, f"claimed-{number}", this_process())


def _publish(
    run: JournalRun,
    decision: RunDecision,
    number: int,
    retries: int,
    own_sink: OwnSink,
    options: Options,
) -> None:
    sink, committables = decision.sinks[number], decision.committables[number]
    if sink.recovery is not None:
        if not run.has_part_in(sink.recovery.folder):
            raise FileNotFoundError(
                f"{sink.recovery.folder} does not have its part of the journal; if the folder was moved, "
                "name its new path, too"
            )
        storage_options = options.get(sink.recovery.folder)
        KINDS[sink.recovery.kind].publish(
            sink.recovery, sink.write_id, committables, retries, storage_options
        )
        return
    own = own_sink(run, number)
    if own is None:
        raise NeedsItsJobError(f"{sink.class_name} is defined by the job, so only the job can commit it")
    own.commit_retries = retries
    own.commit(committables)


# Before it starts, a run finishes or undoes runs that killed drivers have left in its folders.


@dataclass(frozen=True)
class JobSink(NamedSink):
    """A sink of a job that is not started yet."""

    type_info: TypeInformation | None = None


@dataclass(frozen=True)
class NextRun:
    """A run that is about to start."""

    job: str
    fingerprint: str  #: `job_fingerprint`
    sinks: Sequence[JobSink]
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: storage options by folder


def finish_earlier_runs(following: NextRun) -> JournalRun | None:
    """Publish the runs that were decided to be published, undo the others, and skip runs with a live owner.

    Return the run that this one repeats: the same job over the same input, published, whose driver was killed
    before it could report this. Its journal stays until the caller removes it. Raises CommitError if a run of
    this job cannot be published.
    """
    repeated: JournalRun | None = None
    for run in _earlier_runs(following):
        try:
            repeated = _finish_or_undo(run, following, repeated)
        except CommitError:
            raise
        except (OSError, ValueError) as error:  # a damaged or unreachable journal must not stop this run
            print_message(f"run {run.short_id} of job {run.job!r} is skipped: {error}")
    return repeated


def _finish_or_undo(run: JournalRun, following: NextRun, repeated: JournalRun | None) -> JournalRun | None:
    """Finish or undo `run`; return it if this run would repeat it, else `repeated`."""
    state, owner = _state_and_owner(run)
    if state in ("running", "elsewhere"):
        return repeated
    if state in ("undecided", "undoing") and undo(run, following_sinks(following), following.options):
        print_message(
            f"run {run.short_id} of job {run.job!r} ended before its commit; its staged files are removed"
        )
        return repeated
    try:
        publish_rest(run, following_sinks(following), following.options)
    except CommitError as error:
        if run.job == following.job:
            raise
        print_message(str(error))
        return repeated
    if state == "done" and owner == "unknown":
        return repeated  # its driver may be alive, and its script busy with later steps
    if run.fingerprint == following.fingerprint:
        return run if repeated is None and claim(run) else repeated
    forget(run)
    print_message(f"run {run.short_id} of job {run.job!r} ended within its commit, which is finished now")
    return repeated


def following_sinks(following: NextRun) -> OwnSink:
    """Return an OwnSink with the sinks of the next job, started with the write ids of an earlier run."""

    def own_sink(run: JournalRun, number: int) -> Sink | None:
        wanted = run.sinks[number]
        key = (wanted.name, wanted.class_name)
        before = sum((sink.name, sink.class_name) == key for sink in run.sinks[:number])
        alike = [
            named_sink
            for named_sink in following.sinks
            if (named_sink.name, _class_name(named_sink.sink)) == key
        ]
        if run.job != following.job or before >= len(alike):
            return None
        return alike[before].sink.start(wanted.write_id, alike[before].type_info)

    return own_sink


def _earlier_runs(following: NextRun) -> Iterable[JournalRun]:
    committed = [named_sink.sink for named_sink in following.sinks if needs_commit(named_sink.sink)]
    recoveries = [recovery_of(sink) for sink in committed]
    folders = list(dict.fromkeys(recovery.folder for recovery in recoveries if recovery is not None))
    in_state_folder = bool(committed) and not folders
    runs, skipped = runs_in([state_folder()] if in_state_folder else folders)
    for entry in skipped:
        if not entry.of_others:
            print_message(f"{entry.path} is skipped: {entry.why}")
    return [run for run in runs if not in_state_folder or run.job == following.job]
