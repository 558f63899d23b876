"""The context of jobs: the settings of a script, the cluster it runs on, and the runs of its jobs so far.

Each call of `penstock run`, `penstock.run` and the planning of a script has a context of its own, so several
scripts' jobs can run in one process at a time. An environment belongs to the context that is current when
it is made, and passes it to its jobs.

Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironmentFactory;
org.apache.flink.client.program.{StreamContextEnvironment,StreamPlanEnvironment}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.layers import PlanOptions

if TYPE_CHECKING:
    from penstock.engine.run.clusters.session_folder import Session
    from penstock.engine.run.commits.journal import JournalRun
    from penstock.engine.run.lowering.transformations import Job
    from penstock.engine.run.runtime.job_monitor import JobResult, RunControl
    from penstock.engine.run.runtime.recover_jobs import ScriptRecovery


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Settings that override a script's when its job is planned."""

    options: Mapping[str, str] = field(default_factory=dict)  #: Flink's options
    parallelism: Mapping[str, int] = field(default_factory=dict)  #: by an operator's name or uid


@dataclass(kw_only=True)
class EnvironmentSettings:
    """Settings for the jobs of a script."""

    parallelism: int | None = None  #: default of new environments; None: the number of cores
    config: Mapping[str, str] = field(default_factory=dict)  #: Flink options, which the script overrides
    #: Jobs are captured in this list instead of being run; None: they run.
    captured: list[Job] | None = None
    #: Whether the script continues after a captured job, without results, or ends with JobCaptured.
    goes_on: bool = False
    #: Settings that override the script's.
    changes: Changes = field(default_factory=Changes)
    #: The cluster that jobs are planned for.
    plan_options: PlanOptions = field(default_factory=plan_options)


@dataclass(frozen=True)
class SessionSettings:
    """A Spark master (None: local[*]) and Spark settings to start a session with, or the running session
    that this process is connected to.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: Session | None = None


class BackgroundJob(Protocol):
    """A job of execute_async, which runs in a thread."""

    def cancel(self) -> None:
        """Request its cancellation."""

    def join(self, seconds: float) -> None:
        """Wait for its end, up to `seconds`."""

    def raise_unreported(self) -> None:
        """Wait for its end; raise its error, unless the script has seen it."""


@dataclass(eq=False, kw_only=True)
class RunContext:
    """What the jobs of one script share.

    `settings`: None: those of the configuration directory (PENSTOCK_CONF_DIR, else spark-conf/), read each
    time. `spark`: None: the process's own session, or a new one with the settings of the configuration
    directory. `is_script`: jobs are those of one script, which ends with the context.
    """

    settings: EnvironmentSettings | None = None
    spark: SessionSettings | None = None
    recovery: ScriptRecovery | None = None  #: the saved data sets of the script, which its jobs continue from
    is_script: bool = False
    #: Called with every run when it is planned and compiled, before Spark starts.
    submit_listeners: list[Callable[[JobResult, RunControl], None]] = field(default_factory=list)
    #: Called with every run when it has ended.
    run_listeners: list[Callable[[JobResult], None]] = field(default_factory=list)
    #: Number of published runs, by name of the job.
    published: Counter[str] = field(default_factory=Counter)
    #: Journals of published runs that are retained until the script goes on.
    unacknowledged: list[JournalRun] = field(default_factory=list)
    #: Jobs of execute_async that have not ended, and those that have failed.
    running: set[BackgroundJob] = field(default_factory=set)
    failed: list[BackgroundJob] = field(default_factory=list)

    def environment_settings(self) -> EnvironmentSettings:
        """Return the settings of new environments. Raises ConfigurationError for wrong files."""
        if self.settings is not None:
            return self.settings
        configuration = find_configuration()
        return EnvironmentSettings(
            config=configuration.scripts, plan_options=plan_options(cluster=configuration.cluster)
        )


_of_this_thread: ContextVar[RunContext] = ContextVar("run_context")

#: For threads that a script has started: contexts that are open, the last one last.
_open: list[RunContext] = []

_of_the_process = RunContext()


def current_context() -> RunContext:
    """Return the context of the innermost block of `use_context` in this thread, else of the last block that
    another thread has opened, else the process's own.
    """
    return _of_this_thread.get(_open[-1] if _open else _of_the_process)


@contextmanager
def use_context(context: RunContext) -> Iterator[RunContext]:
    """Environments that are made inside the block belong to `context`."""
    before = _of_this_thread.set(context)
    _open.append(context)
    try:
        yield context
    finally:
        _open.remove(context)
        _of_this_thread.reset(before)
