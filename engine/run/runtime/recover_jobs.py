"""Jobs of a script whose finished data sets are kept, and those that go on with what is kept.

Jobs of a script are told apart by their order: the first that is submitted has number 0.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.run.commits.earlier_runs import say
from penstock.engine.run.recovery.identify_plan import differences, identify_plan
from penstock.engine.run.recovery.kept_script import KeptJob, KeptScript
from penstock.engine.run.runtime.job import Job
from penstock.plans.errors import InputError


@dataclass(frozen=True)
class RecoveredJob:
    """A job of a script that keeps what it has finished."""

    script: KeptScript
    number: int
    name: str
    kept: KeptJob
    done_before: bool  #: by an earlier run of the script
    resumed: str | None  #: the id of the job that the script goes on with

    def finished(self) -> None:
        """The job has finished; nothing of it is kept any more."""
        try:
            self.script.note_done(self.number, self.name)
            self.kept.remove()
        except OSError as error:
            say(f"job {self.name!r} has finished, but {self.script.folder} cannot say so: {error}")


class ScriptRecovery:
    """The jobs of one run of a script; `resumed`: the id of the job that it goes on with."""

    def __init__(self, script: KeptScript, resumed: str | None = None) -> None:
        self.script, self.resumed = script, resumed
        self._next = 0

    def begin(self, job: Job, tables: Mapping[str, pa.Table], job_id: str) -> RecoveredJob:
        """The next job, which is about to run as `job_id` and was planned as `tables`.

        InputError where an earlier run of the script had another job there, and kept something of it.
        """
        number, self._next = self._next, self._next + 1
        kept, done = self.script.job(number), self.script.name_of_done(number)
        plan = identify_plan(job.name, job.batch, tables)
        if done is None:
            earlier = kept.plan()
            changes = [] if earlier is None else differences(earlier, plan)
        else:
            changes = [] if done == job.name else [f"it was {done!r}"]
        if changes:
            raise InputError(
                f"job {job.name!r} (number {number + 1} of the script) is not the one that was kept:\n  "
                + "\n  ".join(changes),
                "run the script as it was, or without --resume from the start",
            )
        if done is None:
            kept.begin(plan, job_id)
        return RecoveredJob(self.script, number, job.name, kept, done is not None, self.resumed)


class _InUse:
    """The kept data sets of the script that this process runs."""

    recovery: ScriptRecovery | None = None


def recovered_job(job: Job, tables: Mapping[str, pa.Table], job_id: str) -> RecoveredJob | None:
    """What is kept of a job that is about to run; None where nothing is to be."""
    return None if _InUse.recovery is None else _InUse.recovery.begin(job, tables, job_id)


@contextmanager
def use_recovery(recovery: ScriptRecovery | None) -> Iterator[None]:
    """Jobs that run inside keep what they have finished, until they or the script have ended well."""
    if recovery is None:
        yield
        return
    _InUse.recovery = recovery
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            _say_what_is_kept(recovery.script)
            raise
        recovery.script.remove()
        raise
    finally:
        _InUse.recovery = None
    recovery.script.remove()


def _say_what_is_kept(script: KeptScript) -> None:
    with suppress(OSError):
        ids = [job_id for _, job in script.jobs() for job_id in job.ids()[-1:]]
        if ids:
            say(f"what is finished is kept: penstock run --resume {ids[-1]} goes on from there")
        else:
            script.remove()
