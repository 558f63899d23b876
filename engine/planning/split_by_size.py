"""Topologies that a partition holds apart from those that need blocks."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.planners.run_joins import Planned
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.topologies_of_lines import TopologyTables


def split_by_size(
    read: TopologyTables, giants: Sequence[int]
) -> tuple[TopologyTables | None, TopologyTables | None]:
    """The topologies that are not giants, and the giants; None where there are none.

    `giants` are their topology_ids: few, because each has many rows. What was rejected, and how many
    topologies were read, stands with the first of the two.
    """
    if not giants:
        return read, None
    others = _only(read, ~F.col(TOPOLOGY).isin(list(giants)))
    if others.topologies.isEmpty():
        return None, read
    none = read.rejected.limit(0)
    return others, _only(read, F.col(TOPOLOGY).isin(list(giants)))._replace(
        rejected=none, inputs=0, persisted=()
    )


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


def _only(read: TopologyTables, chosen: Column) -> TopologyTables:
    def rows(table: str) -> DataFrame:
        frame: DataFrame = getattr(read, table)
        return frame.filter(chosen)

    return read._replace(
        topologies=rows("topologies"),
        transformations=rows("transformations"),
        stream_nodes=rows("stream_nodes"),
        stream_edges=rows("stream_edges"),
        job_settings=rows("job_settings"),
    )
