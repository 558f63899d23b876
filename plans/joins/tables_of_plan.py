"""The tables of a plan, of those that passes have made."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from plans.joins.expand_in_workers import Expansion, packed_expansions
from plans.joins.frames import join_local
from plans.joins.packed_tables import PackedTables
from plans.joins.passes import Expanded
from plans.tables import TABLES


def tables_of_plan(
    wanted: Mapping[str, str],
    tables: Mapping[str, DataFrame],
    expanded: Mapping[str, Expanded],
    refused: DataFrame | None,
) -> tuple[dict[str, DataFrame], tuple[PackedTables, ...]]:
    """The tables `wanted` (name in plans.tables.TABLES to the table of passes) without `refused` topologies,
    and what workers can make several of them of at once.

    `tables` are those of passes by name, `expanded` the views among them that have several rows for each of
    another's. `refused` has the column topology_id; None: nothing is refused.
    """

    def of_planned(rows: DataFrame) -> DataFrame:
        return rows if refused is None else join_local(rows, refused, {}, "left_anti")

    found: dict[str, DataFrame] = {}
    by_source: dict[str, tuple[DataFrame, list[Expansion]]] = {}
    for table, produced in wanted.items():
        step = expanded.get(produced)
        if step is None:
            rows = of_planned(tables[produced])
        else:
            # Refused topologies are left out before their rows become several.
            (few,) = step.reads
            before, expansions = by_source.setdefault(few, (of_planned(tables[few]), []))
            expansions.append(step.expansion)
            rows = step.derive(**{few: before})
        found[table] = rows.select(*TABLES[table].names)
    return found, tuple(packed_expansions(*of_rows) for of_rows in by_source.values())
