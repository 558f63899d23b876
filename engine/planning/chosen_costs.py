"""Find the costs of operators that --costs chooses."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from penstock.engine.store.store_location import local_store_and_version
from penstock.plans.errors import ConfigurationError
from penstock.plans.metrics.operator_costs import (
    costs_and_levels,
    costs_in_topologies,
    drawn_costs,
    operator_costs,
    read_costs,
)
from penstock.plans.tables.column_types import TOPOLOGY

DRAWN = "drawn"
"""The value of --costs for costs drawn at random."""

ALIKE = "alike"
"""The value of --costs for equal costs of all operators, ignoring those in topologies."""


def require_costs(costs: str | None) -> None:
    """Raise ConfigurationError unless `costs` is a file, a store, DRAWN, ALIKE or None."""
    if costs in (None, DRAWN, ALIKE) or local_store_and_version(costs) is not None:
        return
    if not Path(costs).is_file():
        raise ConfigurationError(
            f"--costs must be an existing file or store, {DRAWN} or {ALIKE}, got {costs}",
            "a file holds a table of costs; penstock run --to writes a store",
        )


@dataclass(frozen=True, slots=True)
class ChosenCosts:
    """Tables of costs, the first one wins, and whether costs of other operators are drawn."""

    tables: tuple[pl.DataFrame, ...] = ()
    drawn: bool = False

    def __call__(self, stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame) -> pl.DataFrame:
        """Return operator_costs of these stream nodes and edges of whole topologies."""
        return operator_costs(stream_nodes, stream_edges, *self._all_tables(stream_nodes))

    def with_levels(self, stream_nodes: pl.DataFrame) -> pl.DataFrame:
        """Return costs_and_levels of these stream nodes."""
        return costs_and_levels(stream_nodes, *self._all_tables(stream_nodes))

    def _all_tables(self, stream_nodes: pl.DataFrame) -> tuple[pl.DataFrame, ...]:
        return (*self.tables, drawn_costs(stream_nodes)) if self.drawn else self.tables


def chosen_costs(costs: str | None, topologies: pl.DataFrame, part: bool = False) -> ChosenCosts:
    """Return the costs that --costs chooses. `costs`: a file, a store, DRAWN, ALIKE or None.

    A file, or costs measured by the runs of a store, win over costs in `topologies`, which win over drawn or
    assumed ones. `part`: `topologies` are one part of several. Raises ConfigurationError if there is no such
    file, or no such run (a part may lack one); InputError (see read_costs and costs_in_topologies);
    StoreError.
    """
    require_costs(costs)
    if costs == ALIKE:
        return ChosenCosts()
    in_topologies = costs_in_topologies(topologies)
    if costs in (DRAWN, None):
        return ChosenCosts((in_topologies,), costs == DRAWN)
    if (store := local_store_and_version(costs)) is not None:
        in_file = _measured(costs, *store, topologies, part)
    else:
        in_file = read_costs(Path(costs), topologies)
    return ChosenCosts((in_file, in_topologies))


def _measured(
    costs: str, store: str, version: int | None, topologies: pl.DataFrame, part: bool
) -> pl.DataFrame:
    """Return the costs measured by runs in a version, by default the newest."""
    from penstock.engine.store.open_plan import open_plan
    from penstock.plans.metrics.measured_costs import RUN_TABLES, measured_costs

    plan = open_plan(store, version)
    if not plan.has(*RUN_TABLES):
        raise ConfigurationError(
            f"--costs {costs}: version {plan.version} does not contain a run",
            "penstock run --to STORE records one; STORE@VERSION names another version",
        )
    measured = measured_costs({name: plan.table(name).collect() for name in RUN_TABLES}).costs
    costs_of_topologies = measured.join(topologies.select(TOPOLOGY), on=TOPOLOGY, how="semi")
    if costs_of_topologies.is_empty() and not part:
        raise ConfigurationError(
            f"--costs {costs}: version {plan.version} has no finished run of these topologies",
            "topologies are matched by name",
        )
    return costs_of_topologies
