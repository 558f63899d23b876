"""What a changed option, or another parallelism, would save or cost a script's job: planned again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow.compute as pc

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.run_script import ScriptError, run_script
from penstock.engine.planning.plan_options import PlanOptions
from penstock.engine.pyflink.datastream.environment_options import PARALLELISM as DEFAULT_PARALLELISM
from penstock.engine.pyflink.datastream.environment_options import Changes, EnvironmentSettings
from penstock.engine.run.runtime.run_settings import plan_to_run
from penstock.engine.run.runtime.transformations import PYTHON_FILES, Job
from penstock.plans.errors import ConfigurationError, InputError, PenstockError

# The jobs of a script, without running them.


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


#: After the name or uid of an operator: the change is of its parallelism.
PARALLELISM = ":parallelism"


class WhatIfOfScript(NamedTuple):
    """Figures of a job as it is and as it would be, by name; the operators of both."""

    job: str
    now: dict[str, int]
    then: dict[str, int]
    operators_now: list[str]
    operators_then: list[str]


def parse_change(text: str) -> Changes:
    """The change that `KEY=VALUE` or `OPERATOR:parallelism=N` asks for. ConfigurationError for others."""
    key, equals, value = text.rpartition("=") if PARALLELISM in text else text.partition("=")
    if not equals or not key:
        raise ConfigurationError(
            f"--what-if {text}: found no change",
            "allowed for a script: an option of Flink, as python.operator-chaining.enabled=false, or "
            "OPERATOR:parallelism=N",
        )
    counted = key.endswith(PARALLELISM)
    if not counted and key != DEFAULT_PARALLELISM:
        return Changes(options={key: value})
    if not value.isascii() or not value.isdigit() or not int(value):
        raise ConfigurationError(f"--what-if {text}: found parallelism {value!r}, allowed: from 1")
    if not counted:
        return Changes(options={key: value})
    return Changes(parallelism={key.removesuffix(PARALLELISM): int(value)})


def what_if_of_script(
    script: str,
    arguments: Sequence[str],
    settings: EnvironmentSettings,
    wanted: str | None,
    changes: Changes,
) -> WhatIfOfScript:
    """Plan the job of the number or name `wanted` (None: the first one) without `changes` and with them.

    The script runs twice, no job of it does. Raises ConfigurationError where no operator has a name that is
    to be changed, and what jobs_of_script and planning raise.
    """
    now = chosen_job(jobs_of_script(script, arguments, settings), wanted, script)
    changed = replace(settings, changes=changes)
    then = chosen_job(jobs_of_script(script, arguments, changed), wanted, script)
    calls = [
        step.call
        for operator in then.lowered.transformations
        for step in operator.steps
        if step.call is not None
    ]
    known = {name for call in calls for name in (call.name, call.uid)}
    for name in changes.parallelism:
        if name not in known:
            names = ", ".join(sorted({call.name for call in calls}))
            raise ConfigurationError(
                f"--what-if {name}{PARALLELISM}: job {then.name!r} has no such operator", f"it has {names}"
            )
    return WhatIfOfScript(now.name, _figures(now), _figures(then), _operators(now), _operators(then))


def _operators(job: Job) -> list[str]:
    return [str(node["name"]) for node in job.lowered.to_run.stream_graph["nodes"]]


def _figures(job: Job) -> dict[str, int]:
    """The figures of a job. Python operators in thread mode have no workers and serialise nothing."""
    graph, tables = job.lowered.to_run, plan_to_run(job)
    python = [operator for operator in graph.physical.values() if operator.python is not None]
    in_process = {operator.id for operator in python if not operator.thread_mode}
    parallelism = {node["id"]: int(node["parallelism"]) for node in graph.stream_graph["nodes"]}

    def total(table: str, column: str) -> int:
        return int(pc.sum(tables[table][column]).as_py() or 0)

    figures: dict[str, Any] = {
        "operators": len(graph.physical),
        "python operators": len(python),
        "python workers": sum(parallelism[node] for node in in_process),
        "serialisations": 2 * len(in_process),
        "job vertices": len(tables["job_vertices"]),
        "tasks": total("execution_job_vertices", "parallelism"),
        "slots": total("required_slots", "slots"),
    }
    return figures
