"""What StreamExecutionEnvironment.get_execution_environment gives depends on how a script is started.

`penstock run` and `penstock info` put their settings here before the script runs; started plainly with
python, a script gets what the configuration directory says (PENSTOCK_CONF_DIR, else spark-conf/), and a local
Spark with as many cores as the machine has.

Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironmentFactory;
org.apache.flink.client.program.{StreamContextEnvironment,StreamPlanEnvironment}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.machine.machine import cores
from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.run.runtime.job import Job


class JobCaptured(BaseException):
    """Raised in place of running a job that is only to be planned; it ends the script.

    Not an Exception, so that a script's own handlers let it pass.
    Source: org.apache.flink.client.program.ProgramAbortException.
    """


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Settings that override those of a script when its job is planned."""

    options: Mapping[str, str] = field(default_factory=dict)  #: of Flink
    parallelism: Mapping[str, int] = field(default_factory=dict)  #: by an operator's name or uid


@dataclass(kw_only=True)
class EnvironmentSettings:
    """How jobs of this process start."""

    parallelism: int | None = None  #: default of new environments; None: the number of cores
    config: Mapping[str, str] = field(default_factory=dict)  #: Flink options under those of the script
    #: Jobs are put here instead of being run; None: they run.
    captured: list[Job] | None = None
    #: Whether the script goes on after a captured job, with no results of it, or ends with JobCaptured.
    goes_on: bool = False
    #: Over what the script says.
    changes: Changes = field(default_factory=Changes)
    #: The cluster that jobs are planned for.
    plan_options: PlanOptions = field(default_factory=plan_options)


#: A stack; the last entry is in force.
_settings: list[EnvironmentSettings] = []
_local_parallelism: list[int] = []


def current_settings() -> EnvironmentSettings:
    """The settings that new environments and `execute` use. ConfigurationError for files that are wrong."""
    if _settings:
        return _settings[-1]
    configuration = find_configuration()
    return EnvironmentSettings(
        config=configuration.scripts, plan_options=plan_options(cluster=configuration.cluster)
    )


@contextmanager
def use_settings(settings: EnvironmentSettings) -> Iterator[EnvironmentSettings]:
    """`settings` while the block runs."""
    _settings.append(settings)
    try:
        yield settings
    finally:
        _settings.pop()


def default_local_parallelism() -> int:
    """The number of cores, unless set_default_local_parallelism said otherwise."""
    return _local_parallelism[-1] if _local_parallelism else cores()


def set_default_local_parallelism(parallelism: int) -> None:
    """Set the parallelism of environments made from now on."""
    if parallelism < 1:
        raise ValueError(f"parallelism {parallelism}: at least 1")
    _local_parallelism[:] = [parallelism]
