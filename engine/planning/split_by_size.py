"""Topologies that a worker holds apart from giants, and one plan of the plans of both."""

from collections.abc import Sequence
from typing import TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.plans.planners.run_joins import Planned
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.topologies_of_lines import GivenTables, TopologyTables

Read = TypeVar("Read", TopologyTables, GivenTables)


def only_topologies(read: Read, chosen: Sequence[int]) -> Read:
    """The topologies with these ids, which are few.

    What was rejected, and how many topologies were read, is left to the others.
    """
    of_them = _where(read, F.col(TOPOLOGY).isin(list(chosen)))
    if isinstance(of_them, GivenTables):
        return of_them
    none = read.rejected.limit(0)
    return of_them._replace(rejected=none, inputs=len(chosen), persisted=())


def without_topologies(read: Read, chosen: Sequence[int]) -> Read:
    """The other topologies, rows without an id, what was rejected, and what reading has kept."""
    is_other = ~F.col(TOPOLOGY).isin(list(chosen)) | F.col(TOPOLOGY).isNull()
    others = _where(read, is_other)
    return others if isinstance(others, GivenTables) else others._replace(inputs=read.inputs - len(chosen))


def joined_plans(plans: Sequence[Planned]) -> Planned:
    """One plan of all: the tables of each after another, and seconds added up.

    Nothing of it is packed: the rows of a table are in one place.
    """
    first, *further = plans
    for plan in further:
        tables = {name: rows.unionByName(plan.tables[name]) for name, rows in first.tables.items()}
        names = dict.fromkeys([*first.seconds, *plan.seconds])
        seconds = {name: first.seconds.get(name, 0.0) + plan.seconds.get(name, 0.0) for name in names}
        first = Planned(
            tables,
            first.inputs + plan.inputs,
            seconds,
            [*first.kept, *plan.kept],
            (*first.persisted, *plan.persisted),
        )
    return first


def _where(read: Read, chosen: Column) -> Read:
    tables = ("topologies", "transformations", "stream_nodes", "stream_edges", "job_settings")
    of_them = {name: rows.filter(chosen) for name, rows in read._asdict().items() if name in tables}
    if isinstance(read, GivenTables):
        return read._replace(**of_them, folder=None)
    return read._replace(**of_them)
