"""What a run does about runs that killed drivers have left in the folders it writes into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.machine.run_owner import liveness
from penstock.engine.output.say import complain
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import NamedSink, class_name
from penstock.engine.run.commits.errors import CommitError
from penstock.engine.run.commits.find_journals import JournalPart, parts_in, runs_of
from penstock.engine.run.commits.journal import JournalRun
from penstock.engine.run.commits.settle_run import OwnSink, claim, publish_rest, state_of, undo
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.sink import Sink


@dataclass(frozen=True)
class JobSink(NamedSink):
    """A sink of a job, not started."""

    type_info: TypeInformation | None = None


@dataclass(frozen=True)
class NextRun:
    """A run that is about to start."""

    job: str
    fingerprint: str  #: `job_fingerprint`
    sinks: Sequence[JobSink]
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: storage options by folder


def settle_earlier_runs(following: NextRun) -> JournalRun | None:
    """Publish what was decided to be published, undo the rest, and leave runs alone whose owner is alive.

    Gives the run that this one repeats: the same job over the same input, published, whose driver was killed
    before it could say so. Its journal stays until the caller forgets it. CommitError where a run of this job
    cannot be published.
    """
    repeated: JournalRun | None = None
    for run in _found(following):
        try:
            repeated = _settled(run, following, repeated)
        except CommitError:
            raise
        except (OSError, ValueError) as error:  # what is damaged, or away, is no reason not to run
            say(f"run {run.short_id} of job {run.job!r} is passed over: {error}")
    return repeated


def _settled(run: JournalRun, following: NextRun, repeated: JournalRun | None) -> JournalRun | None:
    """What is repeated once `run`, one of those found, is settled."""
    state = state_of(run)
    if state in ("running", "elsewhere"):
        return repeated
    if state in ("undecided", "undoing") and undo(run, following_sinks(following), following.options):
        say(f"run {run.short_id} of job {run.job!r} ended before its commit; what it staged is removed")
        return repeated
    try:
        publish_rest(run, following_sinks(following), following.options)
    except CommitError as error:
        if run.job == following.job:
            raise
        say(str(error))
        return repeated
    if state == "done" and liveness(run.owner) == "unknown":
        return repeated  # its driver may be alive, and its script busy with what comes after the job
    if run.fingerprint == following.fingerprint:
        return run if repeated is None and claim(run) else repeated
    journal.forget(run)
    say(f"run {run.short_id} of job {run.job!r} ended within its commit, which is finished now")
    return repeated


def following_sinks(following: NextRun) -> OwnSink:
    """The sinks of the job that is about to run, started as those of an earlier run were."""

    def own_sink(run: JournalRun, number: int) -> Sink | None:
        wanted = run.sinks[number]
        sort = (wanted.name, wanted.class_name)
        before = sum((sink.name, sink.class_name) == sort for sink in run.sinks[:number])
        alike = [
            named_sink
            for named_sink in following.sinks
            if (named_sink.name, class_name(named_sink.sink)) == sort
        ]
        if run.job != following.job or before >= len(alike):
            return None
        return alike[before].sink.start(wanted.write_id, alike[before].type_info)

    return own_sink


def say(message: str) -> None:
    """A line on standard error, without what a terminal acts on and without secrets."""
    complain(f"penstock: {message}")


def _found(following: NextRun) -> Iterable[JournalRun]:
    committed = [named_sink.sink for named_sink in following.sinks if needs_commit(named_sink.sink)]
    recoveries = [recovery_of(sink) for sink in committed]
    folders = list(dict.fromkeys(recovery.folder for recovery in recoveries if recovery is not None))
    of_state = bool(committed) and not folders
    parts: list[JournalPart] = []
    for folder in [journal.state_folder()] if of_state else folders:
        parts_here, passed = parts_in(folder)
        parts += parts_here
        for journal_passed in passed:
            if not journal_passed.of_others:
                say(f"{journal_passed.path} is passed over: {journal_passed.why}")
    runs, passed = runs_of(parts)
    for journal_passed in passed:
        say(f"{journal_passed.path} is passed over: {journal_passed.why}")
    return [run for run in runs if not of_state or run.job == following.job]
