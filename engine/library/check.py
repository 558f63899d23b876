"""The invariants of a plan as a library call, for tests."""

from penstock.engine.library.planned_tables import Plan, arrow_tables
from penstock.plans.custom_planners.find_violations import STAGE, find_violations
from penstock.plans.errors import BrokenInvariantError, ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.printable import limited, printable
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY

_SHOWN = 10


def check(plan: Plan) -> Plan:
    """Check that a plan keeps the invariants of every plan, and give it back, for a test of a planner.

    They are the rules of docs/custom-planners.md: every operator is in one vertex, chains are connected,
    every task is in one slot, ids are unique, edges name what exists, and so on. Topologies that were
    rejected for what a planner decided break one, too. Raises BrokenInvariantError, which names the first of
    them with their topologies, and ConfigurationError for tables that only Spark has.
    """
    if not isinstance(plan, Plan):
        raise ConfigurationError(
            f"plan: found {type(plan).__name__}, allowed what penstock.plan or read_plan gives"
        )
    arrow = arrow_tables(plan, "check")
    for name in arrow.keys() & TABLES.keys():
        if missing := [column for column in TABLES[name].names if column not in arrow[name].column_names]:
            raise BrokenInvariantError(f"table {name}: found no column {missing[0]}, allowed are all of it")
    tables = {name: from_arrow(table) for name, table in arrow.items()}
    rejected = tables["rejected"]
    rejected = rejected.filter(rejected["error_stage"] == STAGE).sort("name")
    names = dict(tables["topologies"].select(TOPOLOGY, "name").iter_rows())
    violations = [f"{name}: {message}" for name, message in rejected.select("name", "message").iter_rows()]
    violations += [
        f"{names.get(row[TOPOLOGY], row[TOPOLOGY])}: {row['error']}: {row['location']}: "
        f"found {row['found']}, allowed {row['allowed']}"
        for row in find_violations(tables).iter_rows(named=True)
    ]
    if violations:
        shown = "".join(f"\n  {limited(printable(violation), 500)}" for violation in violations[:_SHOWN])
        more = f"\n  and {len(violations) - _SHOWN:,} more" if len(violations) > _SHOWN else ""
        raise BrokenInvariantError(f"{len(violations):,} violations of what every plan keeps:{shown}{more}")
    return plan
