"""The jobs of a script, without running them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.run_script import ScriptError, run_script
from penstock.engine.planning.plan_options import PlanOptions
from penstock.engine.pyflink.datastream.environment_settings import EnvironmentSettings
from penstock.engine.pyflink.datastream.operator_settings import PYTHON_FILES
from penstock.engine.run.runtime.job import Job
from penstock.plans.errors import InputError, PenstockError


class JobsOfScript(NamedTuple):
    """Jobs in the order of their execution; `failure`: what the script failed with after the last one."""

    jobs: list[Job]
    failure: PenstockError | None


def jobs_of_script(
    script: str, arguments: Sequence[str], settings: EnvironmentSettings, *, real_pyflink: bool = False
) -> JobsOfScript:
    """Run a script, and take all its jobs instead of running them: none of them has results.

    Raises InputError where it executes no job, and what `run_script` raises before the first one. A script
    that needs results of a job may fail after it, which is `failure`.
    """
    captured: list[Job] = []
    failure = None
    try:
        _run_to_its_end(
            script, arguments, replace(settings, captured=captured, goes_on=True), real_pyflink=real_pyflink
        )
    except PenstockError as error:
        if not captured:
            raise
        failure = error
    if not captured:
        raise _no_job(script)
    return JobsOfScript(captured, failure)


def job_of_script(
    script: str, arguments: Sequence[str], options: PlanOptions, scripts: object, wanted: str | None = None
) -> Job:
    """The job of a script that has the number (from 1) or the name `wanted`; None: the first one.

    The script runs to its end, or up to its first execute if that job is wanted; nothing runs on Spark.
    `scripts` are options of environments (EffectiveConfiguration.scripts). Raises InputError where it
    executes nothing, ScriptError where it raises.
    """
    settings = EnvironmentSettings(config=scripts, plan_options=options)  # type: ignore[arg-type]
    if wanted is not None:
        return chosen_job(jobs_of_script(script, arguments, settings), wanted, script)
    captured: list[Job] = []
    _run_to_its_end(script, arguments, replace(settings, captured=captured))
    if not captured:
        raise _no_job(script)
    return captured[0]


def chosen_job(captured: JobsOfScript, wanted: str | None, script: str) -> Job:
    """The job of the number (from 1) or name `wanted`; None: the first one. InputError for any other."""
    if wanted is None:
        return captured.jobs[0]
    by_name = [job for job in captured.jobs if job.name == wanted]
    if by_name:
        return by_name[0]
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(captured.jobs):
        return captured.jobs[int(wanted) - 1]
    names = ", ".join(f"{number} {job.name!r}" for number, job in enumerate(captured.jobs, 1))
    raise InputError(f"{script}: no job {wanted!r}", f"it executes {names}")


def _run_to_its_end(
    script: str, arguments: Sequence[str], settings: EnvironmentSettings, *, real_pyflink: bool = False
) -> None:
    """run_script, in which sys.exit ends the script, and raises ScriptError if it reports a failure."""
    try:
        run_script(script, arguments, settings, real_pyflink=real_pyflink)
    except SystemExit as end:
        if end.code:
            raise ScriptError(f"{script} failed: sys.exit({end.code!r})") from end


def _no_job(script: str) -> InputError:
    return InputError(f"{script}: it ended without executing a job", "a job is planned when it is executed")


# The Flink options that a script's environments begin with.


def with_python_files(configuration: EffectiveConfiguration, py_files: str | None) -> dict[str, str]:
    """The configuration's options for scripts, over which `py_files` (FILE,…) win.

    Source: CliFrontend.getEffectiveConfiguration: options of a program come after files and -D.
    """
    return {**configuration.scripts, PYTHON_FILES: py_files} if py_files else dict(configuration.scripts)
