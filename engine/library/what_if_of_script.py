"""What a changed option, or another parallelism, would save or cost a script's job: planned again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow.compute as pc

from penstock.engine.library.jobs_of_script import chosen_job, jobs_of_script
from penstock.engine.pyflink.datastream.environment_options import PARALLELISM as DEFAULT_PARALLELISM
from penstock.engine.pyflink.datastream.environment_settings import Changes, EnvironmentSettings
from penstock.engine.run.runtime.job import Job
from penstock.engine.run.runtime.run_settings import plan_to_run
from penstock.plans.errors import ConfigurationError

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
