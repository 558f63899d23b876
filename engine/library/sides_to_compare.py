"""What is compared: versions of stores, plans, topologies and scripts."""

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.given_topologies import Objects, TablesOfTopologies
from penstock.engine.library.planned_tables import Plan, arrow_tables
from penstock.engine.output.progress import Report
from penstock.engine.planning.plan_in_process import parts_in_process, read_in_process
from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_source import (
    HOLDS_PLANS,
    PlanSource,
    SourceKind,
    identify_source,
    require_kind,
)
from penstock.engine.store.plan_versions import complete, read_listed
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.tables_of import tables_of
from penstock.engine.views.diff.lines_in_both import lines_in_both, parts_without
from penstock.engine.views.diff.side import Side
from penstock.engine.views.diff.side_of_store import side_of_store, side_of_tables, side_of_topologies
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.find_topology_files import find_topology_files
from penstock.plans.topology.columnar.topology_tables import TopologyTables
from penstock.plans.topology.input_errors import MAX_LINE_BYTES

_KEPT = ("penstock", "pyflink")


class Opener:
    """Opens sources; `folder` takes what is read of files, and the caller removes it."""

    def __init__(self, folder: str, configuration: EffectiveConfiguration) -> None:
        self._folder = Path(folder)
        self._configuration = configuration
        self._options = plan_options(
            cluster=self._configuration.cluster, job_defaults=self._configuration.job_defaults
        )

    def open(self, source: str, side: str) -> Side:
        """A store (its newest version), STORE@VERSION, a script (.py), or what plan reads.

        Raises StoreError, InputError and ScriptError.
        """
        recognised = require_kind(source, None, *HOLDS_PLANS)
        if recognised.kind is SourceKind.STORE:
            with store_errors(recognised.path, "reading"):
                return side_of_store(
                    recognised.path, open_plan(recognised.path, recognised.version), self._folder
                )
        return self._side(source, side, self._parts(recognised))

    def open_planned(self, plan: Plan) -> Side:
        """A plan in memory. Raises ConfigurationError where its tables are Spark's, or end too early."""
        tables = arrow_tables(plan, "diff")
        planned_as = (plan.planner_version, *sorted(plan.options.items()))
        label = plan.source
        try:
            return side_of_tables(
                label,
                plan.tables.keys(),
                lambda name: from_arrow(tables[name]).lazy(),
                planned_as,
                self._folder,
            )
        except ConfigurationError as error:
            raise ConfigurationError(
                f"diff: a plan {error.message}",
                "plans are compared through the execution graph: leave until out",
            ) from None

    def open_topologies(self, topologies: Objects | TablesOfTopologies, side: str) -> Side:
        """Topologies in memory; only those that differ are planned. Raises InputError."""
        lines = topologies.topologies if isinstance(topologies, Objects) else tuple(topologies)
        return self._side(f"{side} topologies", side, [_read(lines, self._options)])

    def open_both(self, old: str, new: str, report: Report) -> tuple[list[Side], int]:
        """Both sides, and how many equal topologies they have beside those: lines of files that both hold.

        Same errors as `open`.
        """
        if not (_names_files(old) and _names_files(new)):
            report(f"read {old}")
            before = self.open(old, "old")
            report(f"read {new}")
            return [before, self.open(new, "new")], 0
        report("find equal lines")
        files = {"old": find_topology_files([old]), "new": find_topology_files([new])}
        shared = lines_in_both(files["old"], files["new"])
        sides = []
        for source, side in ((old, "old"), (new, "new")):
            report(f"read {source}")
            parts = parts_without(source, files[side], shared, self._options.job_defaults)
            sides.append(self._side(source, side, parts))
        if any(_has_any(side, shared.ids) for side in sides):  # the first of a name counts
            return [self.open(old, "old again"), self.open(new, "new again")], 0
        return sides, len(shared.ids)

    def _side(self, source: str, folder: str, parts: Iterable[TopologyTables]) -> Side:
        kept = self._folder / folder
        kept.mkdir()
        return side_of_topologies(source, parts, self._options, kept)

    def _parts(self, source: PlanSource) -> Iterable[TopologyTables]:
        if source.kind is SourceKind.SCRIPT:
            topology = _topology_of_script(source.path, self._options, self._configuration.scripts)
            return [_read([topology], self._options)]
        if source.kind is SourceKind.TABLES:
            return [_read(source.path, self._options)]
        return parts_in_process([source.path], MAX_LINE_BYTES, self._options.job_defaults)


def previous_version(store: str) -> tuple[str, str]:
    """The two newest versions of a store, the older one first, as STORE@VERSION.

    Raises ConfigurationError for what is no store, StoreError where there is one version only.
    """
    recognised = identify_source(store)
    if recognised.kind is not SourceKind.STORE or recognised.version is not None:
        raise ConfigurationError(
            f"{store!r} is compared with nothing", "name A and B; only a store is compared with itself"
        )
    with store_errors(store, "reading"):
        numbers = [listed.version for listed in complete(read_listed(tables_of(store)))]
    if len(numbers) < 2:
        raise StoreError(f"{store} has one version only", "diff compares a version with the one before it")
    return f"{store}@{numbers[-2]}", f"{store}@{numbers[-1]}"


def _names_files(source: str) -> bool:
    return require_kind(source, None, *HOLDS_PLANS).kind is SourceKind.TOPOLOGIES


def _has_any(side: Side, ids: NDArray[np.int64]) -> bool:
    shared = pl.LazyFrame({TOPOLOGY: ids})
    return bool(side.topologies.join(shared, on=TOPOLOGY, how="semi").select(pl.len()).collect().item())


def _read(topologies: object, options: PlanOptions) -> TopologyTables:
    frames, inputs, _ = read_in_process(
        topologies,  # type: ignore[arg-type]
        lambda stage: None,
        job_defaults=options.job_defaults,
    )
    return TopologyTables(**frames, inputs=inputs)


def _topology_of_script(script: str, options: PlanOptions, scripts: object) -> dict[str, object]:
    """The topology of its first job. What it prints goes to standard error.

    Modules that it imports from its own folder are forgotten afterwards: the other script may have others of
    the same names.
    """
    from penstock.engine.library.jobs_of_script import job_of_script
    from penstock.engine.library.say_fusing import say_lost_settings
    from penstock.engine.run.runtime.job import topology_of

    before = set(sys.modules)
    with redirect_stdout(sys.stderr):
        job = job_of_script(script, [], options, scripts)
        say_lost_settings(job)
        topology = topology_of(job)
    own = Path(script).resolve().parent
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and name.partition(".")[0] not in _KEPT and _is_beside(Path(file).resolve(), own):
            del sys.modules[name]
    return topology


def _is_beside(module: Path, own: Path) -> bool:
    return own in module.parents and "site-packages" not in module.parts
