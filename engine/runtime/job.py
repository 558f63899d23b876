"""A job as its script described it, before it is planned and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.runtime.transformations import Transformation, to_topology
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import read_option

SCHEDULER = "jobmanager.scheduler"
RUNTIME_MODE = "execution.runtime-mode"


@dataclass(frozen=True, kw_only=True)
class CachedFile:
    """A file of the distributed cache: its path as the author gave it."""

    path: str
    executable: bool = False


@dataclass(kw_only=True)
class Job:
    """Everything that planning and running need; nothing of it changes once the job is made."""

    name: str
    transformations: list[Transformation]  #: as engine.runtime.transformations.reachable gives them
    parallelism: int
    max_parallelism: int | None = None
    chaining: bool = True
    config: dict[str, str] = field(default_factory=dict)  #: Flink options
    batch: bool = False
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, CachedFile] = field(default_factory=dict)
    python_files: tuple[str, ...] = ()
    requirements: str | None = None  #: path of a requirements.txt
    requirements_cache: str | None = None  #: folder of packages to install from
    archives: tuple[tuple[str, str | None], ...] = ()  #: paths, and the folder each is extracted to
    python_executable: str | None = None
    auto_watermark_interval_milliseconds: int = 200
    plan_options: PlanOptions = field(default_factory=plan_options)  #: the cluster it is planned for


def topology_of(job: Job) -> dict[str, Any]:
    """The topology (docs/topology-files.md) of `job`, for the planner.

    Transformation number n of `job.transformations` has id n. In BATCH mode collections are sources that are
    bounded, which for the planner only the kind `source` is; in both modes keyed operators of two inputs say
    themselves what the planner adds to those of one.
    """
    config = dict(job.config)
    if job.batch:
        config.setdefault(SCHEDULER, "Default")
    return to_topology(
        job.name,
        [_as_planned(one, job) for one in job.transformations],
        parallelism=job.parallelism,
        max_parallelism=job.max_parallelism,
        chaining=job.chaining,
        config=config,
    )


def _as_planned(one: Transformation, job: Job) -> Transformation:
    if job.batch and one.kind == "legacy_source":
        return replace(one, kind="source")
    if one.kind != "two_input" or not one.key_selectors:
        return one
    keyed = replace(one, slot_scope=sorted({*one.slot_scope, "STATE_BACKEND"}))
    if job.batch:
        # BatchExecutionUtils.applyBatchExecutionSettings
        if one.chaining in (None, "ALWAYS"):
            keyed.chaining = "HEAD"
        if read_option(job.config, options.SORT_INPUTS):
            mebibytes = max(1, read_option(job.config, options.SORTED_INPUTS_MEMORY) >> 20)
            keyed.managed_memory = keyed.managed_memory or {"OPERATOR": mebibytes}
    return keyed
