"""Open a source of plans: a store, or topologies and scripts, which are planned first."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.progress import SILENT, Report
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_source import PlanSource, SourceKind
from penstock.engine.store.plan_tables import PlanTables, plan_in_memory, rows_of_topology
from penstock.engine.store.store_location import store_errors
from penstock.plans.frames.polars_frames import empty
from penstock.plans.installation import own_version
from penstock.plans.vocabulary import Layer

if TYPE_CHECKING:
    from penstock.plans.layers import PlanOptions
    from penstock.plans.topology.topologies_of_lines import TopologyTables

# What planning is imported for is imported where it is used: a store is opened without it.

Configuration = Callable[[], EffectiveConfiguration]
"""Reads the configuration, which only sources that are planned need."""


@contextmanager
def open_source(
    source: PlanSource,
    configuration: Configuration,
    *,
    until: Layer = Layer.SLOTS,
    in_store: bool = False,
    report: Report | None = None,
) -> Iterator[PlanTables]:
    """Open the plan of all topologies of a source; of a script, of all its jobs.

    A plan that is made here is in memory if it is small, else in a store that exists inside the context, as
    with `in_store` (for Spark, which reads stores). Its version is 1. Errors of the libraries that read
    tables become Penstock's. Raises the errors of planning, and InputError if a script executes no job.
    """
    if source.kind is SourceKind.STORE:
        with store_errors(source.path, "reading"):
            yield open_plan(source.path, source.version)
        return
    configured, report = configuration(), report or Report()
    options = plan_options_of(configured, until)
    with short_lived_folder("plan") as folder:
        file = source.path
        if source.kind is SourceKind.SCRIPT:
            file = str(topologies_of_script(source.path, Path(folder), options, configured.scripts))
        plan = _planned(source.path, file, options, str(Path(folder) / "store"), report, in_store=in_store)
        with store_errors(source.path, "reading"):
            yield plan


def open_to_choose(source: PlanSource, configuration: Configuration, folder: str) -> PlanTables:
    """Open a source of which only some topologies are looked at: those of files are planned when chosen.

    Of a script that is its first job. `folder` holds what was read of many
    topologies. Raises StoreError, InputError and ScriptError.
    """
    if source.kind is SourceKind.STORE:
        with store_errors(source.path, "reading"):
            return open_plan(source.path, source.version)
    configured = configuration()
    options = plan_options_of(configured)
    from penstock.engine.planning.plan_in_process import parts_in_process, read_in_process

    if source.kind is SourceKind.SCRIPT:
        topology = _topology_of_script(source.path, options, configured.scripts)
        return topologies_to_choose(source.path, [read_in_process([topology], options)], options, folder)
    return topologies_to_choose(source.path, parts_in_process([source.path], options), options, folder)


def topologies_to_choose(
    label: str, parts: Iterable["TopologyTables"], options: "PlanOptions", folder: str
) -> PlanTables:
    """Return topologies that were read in parts, and are planned when they are chosen.

    Several parts are kept in files of `folder`, so that memory does not grow with the fleet. Plans raise
    NotEnoughMemoryError before memory runs out.
    """
    from penstock.plans.planners.plan_in_parts import without_garbage_collection
    from penstock.plans.topology.topologies_of_lines import TopologyTables

    tables = tuple(table for table in TopologyTables._fields if table != "inputs")
    with without_garbage_collection():
        read = iter(parts)
        first_two = list(islice(read, 2))
        if len(first_two) == 1:
            frames = {table: getattr(first_two[0], table).lazy() for table in tables}
        else:
            frames = _kept_in_files(chain(first_two, read), tables, Path(folder))
    return PlanTables(
        label,
        tables,
        lambda name, topology: rows_of_topology(frames[name], name, topology),
        options.recorded,
        own_version(),
        plan_rows=lambda rows: _plan_read(label, rows, options),
    )


def _kept_in_files(
    parts: Iterable["TopologyTables"], tables: Sequence[str], folder: Path
) -> dict[str, pl.LazyFrame]:
    files: dict[str, list[Path]] = {table: [] for table in tables}
    for number, part in enumerate(parts):
        for table in tables:
            if len(rows := getattr(part, table)):
                files[table].append(folder / f"{table}-{number}.arrow")
                rows.write_ipc(files[table][-1])
    return {table: pl.scan_ipc(paths) if paths else empty(table).lazy() for table, paths in files.items()}


def open_job(
    script: str, arguments: Sequence[str], configuration: Configuration, wanted: str | None = None
) -> PlanTables:
    """Plan one job of a script (see job_of_script), which the plan then names as its `job`."""
    from penstock.engine.library.run_script import job_of_script
    from penstock.engine.run.lowering.plan_job import plan_job

    configured = configuration()
    options = plan_options_of(configured)
    job = job_of_script(script, arguments, options, configured.scripts, wanted)
    return replace(plan_in_memory(script, plan_job(job), options.recorded, own_version()), job=job)


def plan_options_of(configuration: EffectiveConfiguration, until: Layer = Layer.SLOTS) -> "PlanOptions":
    """Return the options of a plan that the configuration alone decides."""
    from penstock.engine.planning.plan_options import plan_options

    return plan_options(until, cluster=configuration.cluster, job_defaults=configuration.job_defaults)


# Plan what was opened. Views get PlanTables from these functions only.


def _plan_read(
    label: str, rows: dict[str, pl.DataFrame], options: "PlanOptions", report: Report = SILENT
) -> PlanTables:
    from penstock.engine.planning.plan_in_process import plan_in_process
    from penstock.plans.topology.topologies_of_lines import TopologyTables

    planned = plan_in_process(TopologyTables.of(rows), options, report=report)
    return plan_in_memory(label, planned.tables, options.recorded, own_version())


def _planned(
    label: str, file: str, options: "PlanOptions", store: str, report: Report, *, in_store: bool
) -> PlanTables:
    """Plan files as version 1: in memory if that is small, else into `store`, as a file that is read once."""
    from penstock.engine.planning.memory_estimate import estimate_size, require_memory_to_plan
    from penstock.engine.planning.plan_in_process import plan_in_process
    from penstock.plans.planners.plan_as_read import ROWS_AT_A_TIME
    from penstock.plans.topology.find_topology_files import examine_paths

    paths = examine_paths([file])
    size = estimate_size(paths)
    if in_store or size.transformations > ROWS_AT_A_TIME or paths.pipes:
        require_memory_to_plan(size, in_parts=True)
        plan_in_process(paths, options, store, report)
        return replace(open_plan(store), label=label)
    planned = plan_in_process(paths, options, report=report)
    plan = plan_in_memory(label, planned.tables, options.recorded, own_version())
    return replace(plan, version=1, published_at=datetime.now(UTC))


# The jobs of a script as topologies. Nothing runs; the script's output goes to standard error.


def topologies_of_script(script: str, folder: Path, options: "PlanOptions", scripts: object) -> Path:
    """Write a file of topology lines, one for each job that the script executes, as PyFlink submits it.

    Lost names and uids, and the script's failure after its last job, are printed.
    """
    from penstock.engine.library.run_script import (
        jobs_of_script,
        print_failure_of_script,
        print_lost_settings,
    )
    from penstock.engine.run.lowering.transformations import topology_of
    from penstock.engine.run.runtime.run_context import EnvironmentSettings

    settings = EnvironmentSettings(config=scripts, plan_options=options)  # type: ignore[arg-type]
    captured = jobs_of_script(script, [], settings)
    print_failure_of_script(captured)
    for job in captured.jobs:
        print_lost_settings(job)
    lines = [orjson.dumps(topology_of(job)) for job in captured.jobs]
    file = folder / f"{Path(script).stem}.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


_NOT_UNLOADED = ("penstock", "pyflink")


def _topology_of_script(script: str, options: "PlanOptions", scripts: object) -> dict[str, object]:
    """Return the topology of a script's first job.

    Modules that it imports from its own folder are unloaded afterwards: the other script may have different
    ones with the same names.
    """
    from penstock.engine.library.run_script import job_of_script, print_lost_settings
    from penstock.engine.run.lowering.transformations import topology_of

    before = set(sys.modules)
    job = job_of_script(script, [], options, scripts)
    print_lost_settings(job)
    topology = topology_of(job)
    own = Path(script).resolve().parent
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if (
            file is not None
            and name.partition(".")[0] not in _NOT_UNLOADED
            and _is_in_folder(Path(file).resolve(), own)
        ):
            del sys.modules[name]
    return topology


def _is_in_folder(module: Path, own: Path) -> bool:
    return own in module.parents and "site-packages" not in module.parts
