"""What `--version` and `--topology` of a command choose in a store."""

from difflib import get_close_matches

import polars as pl

from penstock.engine.commands.reads_plan import called
from penstock.engine.store.open_plan import BY_NAME, StoredPlan, open_plan
from penstock.plans.errors import StoreError

_SIMILAR = 10_000
"""Names that are looked through for a close match."""


def chosen_plan(store: str, version: int | None, topology: str | None) -> StoredPlan:
    """The version (None: the newest), with only the rows of that topology (None: of all).

    Raises StoreError: no such store, version or topology (with the closest names).
    """
    plan = open_plan(store, version, topology)
    if topology is not None and _names(plan, 1).is_empty():
        everything = open_plan(store, plan.version.version)
        raise StoreError(f"{called(store)} has no topology {topology!r}", _closest(everything, topology))
    return plan


def _closest(plan: StoredPlan, topology: str) -> str:
    """Names with the same beginning or, in a store that is not too large, a similar spelling."""
    names = _names(plan, _SIMILAR).to_list()
    close = get_close_matches(topology, names, n=3, cutoff=0.5) or names[:3]
    return ("close names: " if close else "it is empty") + ", ".join(close)


def _names(plan: StoredPlan, most: int) -> pl.Series:
    """The first names of topologies, refused ones too."""
    both = pl.concat([plan.table(table).select("name") for table in BY_NAME if plan.has(table)])
    return both.drop_nulls().unique().sort("name").head(most).collect()["name"]
