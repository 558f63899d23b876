"""When a published run is forgotten: once nobody can take it for one that failed.

A driver that is killed between the commit of a job and the end of its script looks like one that failed, and
is started again. The journal of the last run therefore stays until the script goes on to its next job or
ends, so that the second start finds the job done.

Source: org.apache.flink.runtime.highavailability.JobResultStore.markResultAsCleanAsync.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.engine.run.commits import journal
from penstock.engine.run.commits.journal import JournalRun

#: How many runs this process has published, by the name of the job.
published_jobs: Counter[str] = Counter()

_unacknowledged: list[JournalRun] = []
_scripts: list[None] = []


@contextmanager
def runs_acknowledged_at_end() -> Iterator[None]:
    """Inside the block the last run is kept until the next one begins, or the block ends."""
    _scripts.append(None)
    try:
        yield
    finally:
        _scripts.pop()
        acknowledge_runs()


def acknowledge_runs() -> None:
    """Forget the published runs, because the script goes on."""
    while _unacknowledged:
        with suppress(OSError):  # the run is published; `penstock recover` removes what stays
            journal.forget(_unacknowledged.pop())


def run_is_published(run: JournalRun) -> None:
    """Forget `run` at the next acknowledgement, or at once outside of `penstock run`."""
    published_jobs[run.job] += 1
    _unacknowledged.append(run)
    if not _scripts:
        acknowledge_runs()
