"""Comparing plans as a library call."""

import os
from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import one_of, text
from penstock.engine.library.given_topologies import Objects, Paths, TablesOfTopologies, given_topologies
from penstock.engine.library.library_configuration import Config, library_configuration
from penstock.engine.library.planned_tables import Plan
from penstock.engine.library.sides_to_compare import Opener, previous_version
from penstock.engine.library.store import Store, path_of_store
from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.output.html_table import html_table
from penstock.engine.output.progress import Report
from penstock.engine.views.diff.diff_in_text import Shown, markdown_of_diff, tell_diff
from penstock.engine.views.diff.diff_sides import diff_sides
from penstock.engine.views.diff.keyed_plans import TOTALS
from penstock.engine.views.diff.savepoint_verdicts import Required, RestoreFrom, Verdict, Worse
from penstock.engine.views.diff.side import Side, only_topology
from penstock.engine.views.diff.topology_diff import Counts, TopologyDiff
from penstock.plans.errors import ConfigurationError
from penstock.plans.literals import RestoreFromName, VerdictName


class Diff:
    """What is different in the plans of two sides, and what becomes of savepoints of the old one.

    `old` and `new` say what was compared. `topologies` are those that differ: name, change, verdict, and
    what has changed of operators, chains, data sets and totals; `as_json` of each is in the form of
    docs/comparing.md. `counts` counts all of them.
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
        """Raise WorseVerdictError if a savepoint verdict is worse, as `penstock diff --require` does."""
        worse = Worse(Required(one_of("verdict", str(verdict), [str(required) for required in Required])))
        for differing in self.topologies:
            worse.add(differing.name, differing.verdict, differing.hint)
        worse.add_unnamed(self.new, self._sides[1].left_out - self._sides[0].left_out)
        worse.raise_if_any(self.counts.verdicts.total(), "changed topologies")

    def show(self) -> None:
        """Print it, as `penstock diff` does: counts, then the first topologies, worst verdict first."""
        tell_diff(self._sides, self.counts, self._shown())

    def _shown(self) -> Shown:
        shown = Shown()
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
    """What is different in the plans of `old` and `new`, and whether the state of `old` restores in `new`.

    Both are what `plan`, `read_plan` or `open_store` gave, or topologies as `plan` takes them, or the path of
    a store (STORE@VERSION names a version) or of a script. Without `new`, the newest version of a store is
    compared with the one before it. Topologies are paired by name; `topology` chooses one. `stateful`:
    patterns of names and uids of operators that have state; by default keyed operators, sources and sinks
    have. `from_`: "savepoint", or "last-state", without a savepoint, as the Kubernetes operator and high
    availability restore jobs. `config`: as `plan`, for what is planned on the way. Raises ConfigurationError
    (nothing to compare with, tables of Spark, plans that end before the execution graph), InputError,
    StoreError.
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
    raise ConfigurationError("new: found nothing to compare with", "only a store is compared with itself")


def _opened(opener: Opener, source: Any, side: str) -> Side:
    if isinstance(source, Plan):
        return opener.open_planned(source)
    if isinstance(source, Store):
        return opener.open(source.path, side)
    topologies = given_topologies(source)
    match topologies:
        case Paths(paths=[path]):
            return opener.open(path, side)
        case Objects() | TablesOfTopologies():
            return opener.open_topologies(topologies, side)
    raise ConfigurationError(
        f"{side}: found several paths, or DataFrames of Spark", "plan them, and compare what plan gives"
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
    """Totals are null where they do not differ."""
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
