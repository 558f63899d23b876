"""How much there is to plan: rows of all topologies, and of the largest one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.local_transformations import RowGroups, local_transformations
from penstock.plans.topology.joins.topology_tables import GivenTables, TopologyTables

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS_HERE = 20_000_000
"""More are counted by Spark: each might be a topology of its own."""

MOST_TOPOLOGIES_HERE = 1_000_000
"""The default parallelism of up to this many topologies is collected in this process."""


class RowCounts(NamedTuple):
    """Transformations and given stream nodes of all topologies, and of the largest one; tasks of the one that
    has most, if nothing is chained; and of `giants`, the topologies of more than that many rows, how many."""

    rows: int
    largest: int
    most_tasks: int
    giants: dict[int, int]


def count_rows(topology_tables: TopologyTables | GivenTables, of_giants: int) -> RowCounts:
    """Counted by a query or two, or in this process where the files are here (see local_transformations).

    A giant has more than `of_giants` rows. Transformations without a topology_id are none, but
    count as one topology in `largest`: one worker would get them.
    """
    defaults = topology_tables.topologies.select(TOPOLOGY, F.col("parallelism").cast("long").alias("default"))
    here = _sizes_here(topology_tables)
    if here is not None and len(here) <= MOST_TOPOLOGIES_HERE:
        return _counted_here(here, defaults, of_giants)
    tasks = F.coalesce("tasks", F.lit(0)) + F.col("unset") * F.coalesce("default", F.lit(1))
    sums = (
        _sizes(topology_tables)
        .join(defaults.groupBy(TOPOLOGY).agg(F.max("default").alias("default")), TOPOLOGY, "left")
        .agg(
            F.sum("size").alias("rows"),
            F.max("size").alias("largest"),
            F.max(F.when(F.col(TOPOLOGY).isNotNull(), tasks)).alias("most_tasks"),
        )
    )
    row = sums.collect()[0]
    giants = {}
    if (row["largest"] or 0) > of_giants:
        large = (
            _sizes(topology_tables)
            .filter(F.col(TOPOLOGY).isNotNull() & (F.col("size") > of_giants))
            .select(TOPOLOGY, "size")
            .collect()
        )
        giants = {giant[TOPOLOGY]: giant["size"] for giant in large}
    return RowCounts(row["rows"] or 0, row["largest"] or 0, row["most_tasks"] or 0, giants)


def _sizes(topology_tables: TopologyTables | GivenTables) -> DataFrame:
    """One row per topology: size (transformations or given stream nodes), tasks, unset (a parallelism is)."""
    rows = topology_tables.transformations.select(TOPOLOGY, "parallelism")
    if isinstance(topology_tables, TopologyTables):
        rows = rows.unionByName(topology_tables.stream_nodes.select(TOPOLOGY, "parallelism"))
    return rows.groupBy(TOPOLOGY).agg(
        F.count(F.lit(1)).alias("size"),
        F.sum(F.col("parallelism").cast("long")).alias("tasks"),
        F.count_if(F.col("parallelism").isNull()).alias("unset"),
    )


def _sizes_here(topology_tables: TopologyTables | GivenTables) -> "pl.DataFrame | None":
    """As _sizes, read without Spark; None where the files are not here, or polars cannot read them."""
    folder = topology_tables.folder if isinstance(topology_tables, GivenTables) else None
    tasks = None if folder is None else local_transformations(folder)
    if not tasks:
        return None
    try:
        return _sizes_in_files(tasks)
    except Exception:  # whatever is wrong, Spark's reader says it
        return None


def _sizes_in_files(tasks: Sequence[Sequence[RowGroups]]) -> "pl.DataFrame | None":
    import polars as pl

    files = sorted({group.path for task in tasks for group in task})
    is_said = "parallelism" in pl.read_parquet_schema(files[0])
    parallelism = pl.col("parallelism") if is_said else pl.lit(None, pl.Int64)
    rows = pl.scan_parquet(files, glob=False)
    if rows.select(pl.len()).collect().item() > MOST_ROWS_HERE:
        return None
    return (
        rows.select(TOPOLOGY, parallelism.cast(pl.Int64).alias("parallelism"))
        .group_by(TOPOLOGY)
        .agg(
            pl.len().cast(pl.Int64).alias("size"),
            pl.col("parallelism").sum().alias("tasks"),
            pl.col("parallelism").null_count().cast(pl.Int64).alias("unset"),
        )
        .collect(engine="streaming")
    )


def _counted_here(sizes: "pl.DataFrame", defaults: DataFrame, of_giants: int) -> RowCounts:
    import polars as pl

    of_topologies = pl.from_arrow(defaults.toArrow())
    assert isinstance(of_topologies, pl.DataFrame)
    with_topology = pl.col(TOPOLOGY).is_not_null()
    tasks = pl.col("tasks") + pl.col("unset") * pl.col("default").fill_null(1)
    of_topologies = of_topologies.group_by(TOPOLOGY).agg(pl.col("default").max())
    sums = sizes.join(of_topologies, on=TOPOLOGY, how="left").select(
        pl.col("size").sum().alias("rows"),
        pl.col("size").max().alias("largest"),
        tasks.filter(with_topology).max().alias("most_tasks"),
    )
    large = sizes.filter(with_topology & (pl.col("size") > of_giants))
    giants = dict(zip(large[TOPOLOGY], large["size"], strict=True))
    rows, largest, most_tasks = (count or 0 for count in sums.row(0))
    return RowCounts(rows, largest, most_tasks, giants)
