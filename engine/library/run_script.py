"""Run a script inside `penstock run` and `penstock info`; collect its jobs; compare a job after changes."""

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.machine.standard_streams import is_of_standard_output, output_to_standard_error
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.pyflink.datastream.environment_options import PARALLELISM as DEFAULT_PARALLELISM
from penstock.engine.pyflink.datastream.environment_options import JobCaptured
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import FILE_DELIMITER, PYTHON_FILES, Job, restart_ids
from penstock.engine.run.runtime.run_context import Changes, EnvironmentSettings, RunContext, use_context
from penstock.engine.views.explain_plan import lost_setting_text
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError, InputError, PenstockError
from penstock.plans.layers import PlanOptions


class ScriptError(PenstockError):
    """A script raised."""


def run_script(
    script: str,
    arguments: Sequence[str],
    context: RunContext,
    *,
    real_pyflink: bool = False,
) -> None:
    """Run `script` as `python script arguments` would, with `context` for its environments.

    It imports from their option python.files, too (source: PythonDriver). Unless `real_pyflink`,
    `import pyflink` imports Penstock. Raises InputError if there is no such file, ScriptError with the
    script's own lines if it raises; errors of Penstock pass unchanged.
    """
    path = Path(script)
    if not path.is_file():
        raise InputError(f"{script}: no such script" if not path.exists() else f"{script} is not a file")
    if not real_pyflink:
        from penstock.engine.pyflink_names import install

        install()
    settings = context.environment_settings()
    if settings.captured is not None:
        with without_pandas():
            pass  # pyarrow has now searched for pandas; the script can still import it
    restart_ids()
    python_files = settings.config.get(PYTHON_FILES, "").split(FILE_DELIMITER)
    with use_context(context), _as_main(path, [script, *arguments], list(filter(None, python_files))):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except JobCaptured:
            return
        except PenstockError:
            raise
        except Exception as error:
            if is_of_standard_output(error):
                raise
            raise ScriptError(_describe_script_error(path, error)) from error


def _describe_script_error(path: Path, error: Exception) -> str:
    """Return the error and the script's own lines that led to it, the last one first."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    lines = [f"\n  line {frame.lineno}, in {frame.name}: {frame.line}" for frame in reversed(own)]
    return f"{path} failed: {type(error).__name__}: {error}{''.join(lines)}"


@contextmanager
def _as_main(path: Path, argv: list[str], python_files: Sequence[str]) -> Iterator[None]:
    before_argv, before_path = sys.argv, list(sys.path)
    sys.argv = argv
    sys.path[0:0] = [str(path.resolve().parent), *(str(Path(file).resolve()) for file in python_files)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before_argv, before_path


def with_python_files(configuration: EffectiveConfiguration, py_files: str | None) -> dict[str, str]:
    """Return the configuration's options for scripts; `py_files` (FILE,…), if given, win.

    Source: CliFrontend.getEffectiveConfiguration: options of a program come after files and -D.
    """
    return {**configuration.scripts, PYTHON_FILES: py_files} if py_files else dict(configuration.scripts)


# Collect the jobs of a script without running them.


class JobsOfScript(NamedTuple):
    """Jobs in the order of their execution, and the script's `failure` after the last one, if any."""

    jobs: list[Job]
    failure: PenstockError | None


def jobs_of_script(
    script: str, arguments: Sequence[str], settings: EnvironmentSettings, *, real_pyflink: bool = False
) -> JobsOfScript:
    """Run a script, and capture all its jobs instead of running them: they have no results.

    Raises InputError if it executes no job, and the errors of `run_script` before the first one. A script
    that needs results of a job may fail after it; this is `failure`.
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


def print_failure_of_script(jobs: JobsOfScript) -> None:
    """Print that a script failed after its last known job."""
    if jobs.failure is not None:
        last = jobs.jobs[-1].name
        print_beside_output(f"{jobs.failure.message}; jobs after {last!r} are unknown")


def job_of_script(
    script: str, arguments: Sequence[str], options: PlanOptions, scripts: object, wanted: str | None = None
) -> Job:
    """Return the job of a script with the number (from 1) or the name `wanted`; None: the first one.

    The script runs to its end, or up to its first execute if that job is wanted; nothing runs on Spark.
    `scripts` are options of environments (EffectiveConfiguration.scripts). Raises InputError if it
    executes no job, ScriptError if it raises.
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
    """Return the job with the number (from 1) or name `wanted`; None: the first one. Raises InputError."""
    if wanted is None:
        return captured.jobs[0]
    by_name = [job for job in captured.jobs if job.name == wanted]
    if by_name:
        return by_name[0]
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(captured.jobs):
        return captured.jobs[int(wanted) - 1]
    names = ", ".join(f"{number} {job.name!r}" for number, job in enumerate(captured.jobs, 1))
    raise InputError(f"{script} has no job {wanted!r}", f"it executes {names}")


def _run_to_its_end(
    script: str, arguments: Sequence[str], settings: EnvironmentSettings, *, real_pyflink: bool = False
) -> None:
    """Call run_script; sys.exit ends the script, and raises ScriptError if it reports a failure.

    The script's output goes to standard error, because standard output is for the answer about its jobs.
    """
    try:
        with output_to_standard_error():
            run_script(script, arguments, RunContext(settings=settings), real_pyflink=real_pyflink)
    except SystemExit as end:
        if end.code:
            raise ScriptError(f"{script} failed: sys.exit({end.code!r})") from end


def _no_job(script: str) -> InputError:
    return InputError(f"{script} ended without executing a job", "a job is planned when it is executed")


def print_lost_settings(job: Job) -> None:
    """Warn of uids, hashes and names that PyFlink forgets, each with the line that sets it."""
    for lost in job.lowered.lost_settings:
        print_beside_output(f"job {job.name!r}: {lost_setting_text(lost)}")


# Compare a job with the same job after changes of options or parallelism, by planning it again.


#: Suffix of an operator's name or uid in a change of its parallelism.
PARALLELISM = ":parallelism"


class WhatIfOfScript(NamedTuple):
    """Figures of a job before and after changes, by name, and its operators in both cases."""

    job: str
    now: dict[str, int]
    then: dict[str, int]
    operators_now: list[str]
    operators_then: list[str]


def parse_change(text: str) -> Changes:
    """Parse `KEY=VALUE` or `OPERATOR:parallelism=N`. Raises ConfigurationError for other texts."""
    key, equals, value = text.rpartition("=") if PARALLELISM in text else text.partition("=")
    if not equals or not key:
        raise ConfigurationError(
            f"--what-if must be KEY=VALUE or OPERATOR:parallelism=N for a script, got {text}",
            "KEY is an option of Flink, such as python.operator-chaining.enabled",
        )
    counted = key.endswith(PARALLELISM)
    if not counted and key != DEFAULT_PARALLELISM:
        return Changes(options={key: value})
    if not value.isascii() or not value.isdigit() or not int(value):
        raise ConfigurationError(f"--what-if {text}: parallelism must be 1 or more, got {value!r}")
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
    """Plan the job with the number or name `wanted`, by default the first, without and with `changes`.

    The script runs twice, its jobs do not. Raises ConfigurationError if no operator has a name in the
    changes, and the errors of jobs_of_script and planning.
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
                f"--what-if {name}{PARALLELISM}: job {then.name!r} lacks this operator", f"it has {names}"
            )
    return WhatIfOfScript(now.name, _figures(now), _figures(then), _operators(now), _operators(then))


def _operators(job: Job) -> list[str]:
    return [str(node["name"]) for node in job.lowered.to_run.stream_graph["nodes"]]


def _figures(job: Job) -> dict[str, int]:
    """Return the figures of a job. Python operators in thread mode have no workers and serialise nothing."""
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
