"""The jobs that a script would run, without running them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.engine.planning.plan_options import PlanOptions
from penstock.plans.errors import InputError

if TYPE_CHECKING:
    from penstock.engine.runtime.job import Job


def job_of_script(script: str, arguments: Sequence[str], options: PlanOptions, scripts: object) -> "Job":
    """The job that a script would run first. Same errors as jobs_of_script."""
    return jobs_of_script(script, arguments, options, scripts)[0]


def jobs_of_script(
    script: str, arguments: Sequence[str], options: PlanOptions, scripts: object
) -> "list[Job]":
    """The jobs that a script would run; nothing runs on Spark.

    `scripts` are options of environments (EffectiveConfiguration.scripts). Raises InputError where it
    executes nothing, ScriptError where it raises.
    """
    from penstock.engine.datastream.environment_settings import EnvironmentSettings
    from penstock.engine.library.run_script import run_script

    captured: list[Job] = []
    settings = EnvironmentSettings(config=scripts, captured=captured, plan_options=options)  # type: ignore[arg-type]
    run_script(script, list(arguments), settings)
    if not captured:
        raise InputError(
            f"{script}: it ended without executing a job", "a job is planned when it is executed"
        )
    return captured
