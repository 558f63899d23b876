"""Compare versions of stores, plans, topologies and scripts."""

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.check_arguments import Config, library_configuration, one_of, text
from penstock.engine.library.given_topologies import TablesOfTopologies, given_topologies
from penstock.engine.library.open_source import (
    open_to_choose,
    plan_options_of,
    topologies_to_choose,
)
from penstock.engine.library.planned_tables import Plan, Store, path_of_store, plan_tables
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.pieces import html_table
from penstock.engine.output.progress import Report
from penstock.engine.store.open_plan import tables_of
from penstock.engine.store.plan_source import HOLDS_PLANS, SourceKind, identify_source, require_kind
from penstock.engine.store.plan_versions import complete, read_listed
from penstock.engine.store.store_location import store_errors
from penstock.engine.views.diff.diff_in_text import ShownTopologies, markdown_of_diff, print_diff
from penstock.engine.views.diff.diff_sides import diff_sides
from penstock.engine.views.diff.keyed_plans import TOTALS
from penstock.engine.views.diff.savepoint_verdicts import (
    Counts,
    RequiredVerdict,
    RestoreFrom,
    TopologyDiff,
    Verdict,
    WorseVerdict,
)
from penstock.engine.views.diff.side_of_store import (
    Side,
    lines_in_both,
    only_topology,
    parts_without,
    side_of,
)
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.find_topology_files import TopologyPaths, find_topology_files
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import RestoreFromName, VerdictName

__all__ = ["diff"]


class Opener:
    """Opens sides. Temporary files go to `folder`, which the caller removes."""

    def __init__(self, folder: str, configuration: EffectiveConfiguration) -> None:
        self._folder = Path(folder)
        self._configuration = configuration
        self._options = plan_options_of(configuration)

    def open(self, source: str, side: str) -> Side:
        """Open a store (its newest version), STORE@VERSION, a script (.py), or any input of `plan`.

        Raises StoreError, InputError and ScriptError.
        """
        recognised, folder = require_kind(source, None, *HOLDS_PLANS), self._new_folder(side)
        plan = open_to_choose(recognised, lambda: self._configuration, folder)
        reading = recognised.kind is SourceKind.STORE
        with store_errors(recognised.path, "reading") if reading else nullcontext():
            return side_of(plan, Path(folder))

    def open_planned(self, plan: Plan) -> Side:
        """Open a plan in memory. Raises ConfigurationError if its tables are Spark's, or end too early."""
        return side_of(plan_tables(plan, "diff"), self._folder)

    def open_topologies(self, topologies: list[Any] | TablesOfTopologies, side: str) -> Side:
        """Open topologies in memory; only differing ones are planned. Raises InputError."""
        from penstock.engine.planning.plan_in_process import read_in_process

        return self._of_parts(f"{side} topologies", [read_in_process(topologies, self._options)], side)

    def open_both(self, old: str, new: str, report: Report) -> tuple[list[Side], int]:
        """Open both sides; also return the number of equal lines in files of both, which are left out.

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
            sides.append(self._of_parts(source, parts, side))
        if any(_has_any(side, shared.ids) for side in sides):  # the first topology with a name counts
            return [self.open(old, "old again"), self.open(new, "new again")], 0
        return sides, len(shared.ids)

    def _of_parts(self, label: str, parts: Iterable[TopologyTables], side: str) -> Side:
        folder = self._new_folder(side)
        return side_of(topologies_to_choose(label, parts, self._options, folder), Path(folder))

    def _new_folder(self, side: str) -> str:
        folder = self._folder / side
        folder.mkdir()
        return str(folder)


def previous_version(store: str) -> tuple[str, str]:
    """Return the two newest versions of a store, the older one first, as STORE@VERSION.

    Raises ConfigurationError if it is not a store, StoreError if it has only one version.
    """
    recognised = identify_source(store)
    if recognised.kind is not SourceKind.STORE or recognised.version is not None:
        raise ConfigurationError(
            f"{store!r} needs a second side to compare with", "only a store is compared with itself"
        )
    with store_errors(store, "reading"):
        numbers = [listed.version for listed in complete(read_listed(tables_of(store)))]
    if len(numbers) < 2:
        raise StoreError(f"{store} has only one version", "diff compares a version with the one before it")
    return f"{store}@{numbers[-2]}", f"{store}@{numbers[-1]}"


def _names_files(source: str) -> bool:
    return require_kind(source, None, *HOLDS_PLANS).kind is SourceKind.TOPOLOGIES


def _has_any(side: Side, ids: NDArray[np.int64]) -> bool:
    shared = pl.LazyFrame({TOPOLOGY: ids})
    return bool(side.topologies.join(shared, on=TOPOLOGY, how="semi").select(pl.len()).collect().item())


# Compare plans by a library call.


class Diff:
    """The differences between the plans of two sides, and the verdicts on savepoints of the old one.

    Attributes:
        old: The old side, as a text.
        new: The new side, as a text.
        topologies: Those that differ: name, change, verdict, and the changes of operators, chains, data sets
            and totals. `as_json()` of each returns a dict in the form of docs/comparing.md.
        counts: Number of topologies by change, and by verdict.
    """

    def __init__(self, sides: Sequence[Side], topologies: list[TopologyDiff], counts: Counts) -> None:
        self.old, self.new = sides[0].label, sides[1].label
        self.topologies, self.counts = topologies, counts
        self._sides = sides

    @property
    def table(self) -> pa.Table:
        """A row for each topology that differs: change, verdict, changes by kind, old and new totals."""
        rows = [_row(topology) for topology in self.topologies]
        return pl.DataFrame(rows, schema=_SCHEMA).to_arrow(compat_level=pl.CompatLevel.oldest())

    def require(self, verdict: Verdict | VerdictName) -> None:
        """Raise WorseVerdictError if a verdict is worse than required, as `penstock diff --require` does.

        Args:
            verdict: "restores", "restores-with-warnings", "allow-non-restored" or "refused".

        Raises:
            WorseVerdictError: Names the topologies.
            ConfigurationError: There is no such verdict.
        """
        worse = WorseVerdict(
            RequiredVerdict(one_of("verdict", str(verdict), [str(required) for required in RequiredVerdict]))
        )
        for differing in self.topologies:
            worse.add(differing.name, differing.verdict, differing.hint)
        worse.add_unnamed(self.new, self._sides[1].left_out - self._sides[0].left_out)
        worse.raise_if_any(self.counts.verdicts.total(), "changed topologies")

    def show(self) -> None:
        """Print it, as `penstock diff` does: counts, then the first topologies, worst verdict first."""
        print_diff(self._sides, self.counts, self._shown())

    def _shown(self) -> ShownTopologies:
        shown = ShownTopologies()
        for differing in self.topologies:
            shown.add(differing)
        return shown

    def __repr__(self) -> str:
        counted = ", ".join(
            f"{count:,} {change}" for change, count in self.counts.topologies.items() if count
        )
        return f"<penstock.Diff: {counted or 'no topologies'}>"

    def _repr_markdown_(self) -> str:
        return "\n".join(markdown_of_diff(self._sides, self.counts, self._shown()))

    def _repr_html_(self) -> str:
        columns = ("topology", "change", "savepoint", *TOTALS.values())
        rows = [
            (
                differing.name,
                str(differing.change),
                "" if differing.verdict is None else str(differing.verdict),
                *(
                    f"{differing.totals[k][0]:,} → {differing.totals[k][1]:,}"
                    if k in differing.totals
                    else ""
                    for k in TOTALS
                ),
            )
            for differing in self._shown().in_order()
        ]
        return html_table(f"{self.old} → {self.new}: {repr(self)[16:-1]}", columns, rows)


def diff(
    old: Any,
    new: Any = None,
    *,
    topology: str | None = None,
    stateful: Sequence[str] = (),
    from_: RestoreFrom | RestoreFromName = RestoreFrom.SAVEPOINT,
    config: Config = None,
) -> Diff:
    """Compare the plans of two sides, and tell whether the old state restores in the new jobs.

    Topologies are paired by name.

    Args:
        old: What `plan`, `read_plan` or `open_store` returned, topologies as `plan` takes them, or the path
            of a store (STORE@VERSION for a version) or of a script.
        new: The same. Default: the newest version of the store `old`, compared with the version before it.
        topology: Only the topology of this name.
        stateful: Patterns (`*`, `?`) of names and uids of operators with state. Default: keyed operators,
            sources and sinks.
        from_: "savepoint" (default), or "last-state": without a savepoint, as the Kubernetes operator and
            high availability restore jobs.
        config: As for `plan`, for topologies that are planned here.

    Returns:
        Diff: `topologies` that differ, `counts` of all, and `table` with one row per topology that differs.

    Raises:
        ConfigurationError: Nothing to compare with, tables of Spark, or plans that end before the execution
            graph.
        InputError: A file or script cannot be read.
        StoreError: A store cannot be read.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> job = {"name": "a", "transformations": [source, sink]}
        >>> old, new = penstock.plan(job), penstock.plan(job, parallelism=2)
        >>> penstock.diff(old, new).table.select(["name", "change", "new_tasks"]).to_pylist()
        [{'name': 'a', 'change': 'changed', 'new_tasks': 2}]
    """
    wanted = None if topology is None else text("topology", topology, "my job")
    patterns = [text("stateful", pattern, "Sink: *") for pattern in stateful]
    if new is None:
        old, new = previous_version(_store(old))
    counts = Counts(RestoreFrom(one_of("from_", str(from_), [*map(str, RestoreFrom)])))
    configuration = library_configuration(config)
    with short_lived_folder("diff") as folder:
        opener = Opener(folder, configuration)
        in_both = 0
        if isinstance(old, str | os.PathLike) and isinstance(new, str | os.PathLike) and wanted is None:
            sides, in_both = opener.open_both(os.fspath(old), os.fspath(new), Report())
        else:
            sides = [_opened(opener, source, name) for source, name in ((old, "old"), (new, "new"))]
        if wanted is not None:
            sides = only_topology(sides, wanted)
        differing = list(diff_sides(sides[0], sides[1], counts, patterns, in_both))
    return Diff(sides, differing, counts)


def _store(store: Any) -> str:
    if isinstance(store, Store | str | os.PathLike):
        return path_of_store(store)
    raise ConfigurationError("new is required", "only a store is compared with itself")


def _opened(opener: Opener, source: Any, side: str) -> Side:
    if isinstance(source, Plan):
        return opener.open_planned(source)
    if isinstance(source, Store):
        return opener.open(source.path, side)
    topologies = given_topologies(source).source
    match topologies:
        case TopologyPaths(paths=[path]):
            return opener.open(path, side)
        case list() | TablesOfTopologies():
            return opener.open_topologies(topologies, side)
    raise ConfigurationError(
        f"{side} must be one source, got several paths, or DataFrames of Spark",
        "plan them, and compare the plans",
    )


_COUNTED = ("added", "removed", "renamed", "changed_ids", "parallelism", "max_parallelism")
_SCHEMA: dict[str, Any] = {
    "name": pl.String,
    "change": pl.String,
    "verdict": pl.String,
    **{f"operators_{name}": pl.Int64 for name in _COUNTED},
    "chains_split": pl.Int64,
    "chains_joined": pl.Int64,
    "data_sets": pl.Int64,
    **{f"{side}_{name}": pl.Int64 for name in TOTALS for side in ("old", "new")},
}


def _row(differing: TopologyDiff) -> dict[str, Any]:
    """Return a row; totals are null if they do not differ."""
    return {
        "name": differing.name,
        "change": str(differing.change),
        "verdict": None if differing.verdict is None else str(differing.verdict),
        **{f"operators_{name}": len(differing.operators.get(name, ())) for name in _COUNTED},
        "chains_split": len(differing.split),
        "chains_joined": len(differing.joined),
        "data_sets": len(differing.data_sets),
        **{
            f"{side}_{name}": differing.totals[name][place] if name in differing.totals else None
            for name in TOTALS
            for place, side in enumerate(("old", "new"))
        },
    }
