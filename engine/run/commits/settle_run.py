"""Finishing or undoing a run whose owner has gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from penstock.engine.machine.run_owner import liveness, this_process
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import active_runs, publishing_order, unfinished
from penstock.engine.run.commits.errors import CommitError, NeedsItsJobError
from penstock.engine.run.commits.journal import JournalRun, RunDecision
from penstock.operators.connectors.recover_sinks import KINDS
from penstock.operators.connectors.sink import Sink

#: A run on a machine that cannot be asked is given up after this time without a sign of life.
LONGEST_SILENCE_SECONDS = 86_400.0

State = Literal["running", "elsewhere", "undecided", "publishing", "undoing", "done"]

#: Finds the job's own sink for sink number n of a run, which only the job can finish; None: there is none.
OwnSink = Callable[[JournalRun, int], Sink | None]

#: Storage options by folder.
Options = Mapping[str, Mapping[str, str]]

_NO_OPTIONS: Options = {}


def no_own_sink(run: JournalRun, number: int) -> Sink | None:
    """The OwnSink of callers other than the job: they have no sinks of its classes."""
    return None


def state_of(run: JournalRun) -> State:
    """What has to be done about a run.

    "running": nothing, its owner is alive. "elsewhere": nothing, its owner may be alive on another machine.
    "undecided" and "undoing": to be undone. "publishing": to be published. "done": to be forgotten.
    """
    written = journal.records(run)
    if not _is_abandoned(run, written):
        return "running"
    decision = journal.decision_of(run)
    if decision is not None:
        if not decision.publish:
            return "undoing"
        return "done" if "done" in written else "publishing"
    if liveness(run.owner) == "unknown" and journal.seconds_since_sign_of_life(run) < LONGEST_SILENCE_SECONDS:
        return "elsewhere"
    return "undecided"


def publish_rest(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> None:
    """Publish what is not published yet of a run in state "publishing"; the journal stays, as done.

    CommitError where a sink cannot be published; the others are.
    """
    decision = journal.decision_of(run)
    if decision is None:
        return  # another process has finished and forgotten it
    attempts = sum(name.startswith("attempt-") for name in journal.records(run))
    journal.write(run, f"attempt-{attempts}")
    failed: tuple[int, Exception] | None = None
    for number in publishing_order(decision.sinks):
        if journal.read(run, f"settled-{number}"):
            continue
        try:
            _publish(run, decision, number, attempts, own_sink, options)
        except Exception as error:
            failed = failed or (number, error)
        else:
            journal.write(run, f"settled-{number}")
    if failed is not None and journal.is_known(run):
        raise CommitError(*unfinished(run, *failed)) from failed[1]
    journal.write(run, "done")


def undo(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> bool:
    """Remove what a run in state "undecided" or "undoing" has staged, and its journal.

    False if its owner has decided to publish it meanwhile.
    """
    journal.decide_to_undo(run)
    decision = journal.decision_of(run)
    if decision is not None and decision.publish:
        return False
    remove_staged(run, own_sink, options)
    return True


def remove_staged(run: JournalRun, own_sink: OwnSink = no_own_sink, options: Options = _NO_OPTIONS) -> None:
    """Remove what a run has staged and not published, and its journal."""
    for number, sink in enumerate(run.sinks):
        if sink.recovery is not None:
            if run.has_part_in(sink.recovery.folder):  # else it is another folder by now, or has none left
                storage_options = options.get(sink.recovery.folder)
                KINDS[sink.recovery.kind].undo(sink.recovery, sink.write_id, storage_options)
        elif (own := own_sink(run, number)) is not None:
            own.abort()
    journal.forget(run)


def claim(run: JournalRun) -> bool:
    """Whether this process is the one that repeats a published run; only one process at a time can be."""
    number = 0
    while (claimed := journal.read_process(run, f"claimed-{number}")) is not None:
        if claimed != this_process() and liveness(claimed) != "dead":
            return False
        number += 1
    return journal.write(run, f"claimed-{number}", this_process())


def _is_abandoned(run: JournalRun, written: Mapping[str, float]) -> bool:
    if "failed" in written:
        return True
    if run.owner == this_process():
        return run.run_id not in active_runs
    return liveness(run.owner) != "alive"


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
                "name where it is now, too"
            )
        storage_options = options.get(sink.recovery.folder)
        KINDS[sink.recovery.kind].publish(
            sink.recovery, sink.write_id, committables, retries, storage_options
        )
        return
    own = own_sink(run, number)
    if own is None:
        raise NeedsItsJobError(f"{sink.class_name} is a class of the job's own; only the job can commit it")
    own.commit_retries = retries
    own.commit(committables)
