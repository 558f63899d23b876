"""A job as its script described it, before it is planned and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.run.runtime.lowered_transformation import GeneratedGraph, LoweredJob
from penstock.engine.run.runtime.transformations import Transformation

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
    #: The calls of the script that the job consists of, in their order.
    transformations: list[Transformation]
    lowered: LoweredJob  #: what PyFlink makes of them
    parallelism: int
    max_parallelism: int | None = None
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
    """The topology (docs/topology-files.md) of `job` as PyFlink submits it, for the planner."""
    return _topology(job, job.lowered.submitted)


def topology_to_run(job: Job) -> dict[str, Any]:
    """The topology of `job` as it runs here: every operator with its parallelism, also in BATCH mode."""
    return _topology(job, job.lowered.to_run)


def _topology(job: Job, graph: GeneratedGraph) -> dict[str, Any]:
    topology: dict[str, Any] = {
        "name": job.name,
        "stream_graph": graph.stream_graph,
        "parallelism": job.parallelism,
    }
    if job.max_parallelism is not None:
        topology["max_parallelism"] = job.max_parallelism
    if job.config:
        topology["config"] = job.config
    return topology
