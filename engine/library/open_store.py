"""Open stores of plans by library calls."""

import os
from typing import TYPE_CHECKING, Any, cast, overload

import pyarrow as pa

from penstock.engine.library.check_arguments import path, require_session, text, whole_number
from penstock.engine.library.given_topologies import is_spark_frame
from penstock.engine.library.planned_tables import (
    Plan,
    Store,
    Tables,
    Version,
    dataframe_of_table,
    path_of_store,
    shown_path,
)
from penstock.engine.store.open_plan import open_plan, open_plan_of, tables_of
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.store.plan_versions import list_versions
from penstock.engine.store.store_location import is_local, store_errors
from penstock.engine.store.store_tables import VersionNumber
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.vocabulary import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["open_store", "read_plan"]


def open_store(store: str | os.PathLike[str]) -> Store:
    """Open a store of plans and list its versions.

    Args:
        store: Path or URI of a store. One that is not local is read through Spark.

    Returns:
        Store: `versions`, oldest first, as they are now.

    Raises:
        StoreError: Not a store, no readable version, or a damaged manifest.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
        >>> number = plan.write("plans")
        >>> [version.number for version in penstock.open_store("plans").versions]
        [1]
    """
    place = path("store", store)
    with without_pandas():
        known = list_versions(tables_of(place))
    if not known:
        raise StoreError(f"{place} does not have a version", "penstock plan writes one")
    return Store(
        place,
        tuple(
            Version(
                v.version,
                v.published_at,
                v.planner_version,
                v.topologies,
                v.rejected,
                cast(tuple[TableName, ...], v.tables),
                dict(v.options),
            )
            for v in known
            if v.version is not None
        ),
    )


@overload
def read_plan(
    store: str | os.PathLike[str] | Store,
    version: int | None = None,
    *,
    topology: str | None = None,
    spark: "SparkSession",
) -> "Plan[DataFrame]": ...


@overload
def read_plan(
    store: str | os.PathLike[str] | Store,
    version: int | None = None,
    *,
    topology: str | None = None,
    spark: None = None,
) -> Plan[pa.Table]: ...


def read_plan(
    store: str | os.PathLike[str] | Store,
    version: int | None = None,
    *,
    topology: str | None = None,
    spark: "SparkSession | None" = None,
) -> Plan[Any]:
    """Read a version of a store.

    Args:
        store: A path or URI, without @VERSION, or a `Store`.
        version: A version, from 1; default: the newest.
        topology: Only the rows of the topology of this name.
        spark: A SparkSession; tables are then DataFrames, of all topologies.

    Returns:
        Plan: Tables are read when they are asked for.

    Raises:
        StoreError: Not a store, no such version or topology, or a damaged table.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
        >>> number = plan.write("plans")
        >>> penstock.read_plan("plans").tables["stream_nodes"].num_rows
        2
    """
    place = path_of_store(store)
    if version is not None:
        whole_number("version", version)
    if topology is not None:
        text("topology", topology, "my job")
    if spark is not None:
        require_session(spark)
        return _on_spark(spark, place, version, topology)
    with without_pandas():
        stored = open_plan(place, version, topology)
    tables = _arrow_tables(place, stored)
    planned, rejected = stored.planned, stored.rejected
    if topology is not None:
        planned, rejected = tables["topologies"].num_rows, tables["rejected"].num_rows
        if not planned + rejected:
            raise StoreError(f"{place} has no topology {topology!r}", "its names are in the table topologies")
    return _plan(place, stored, tables, planned, rejected)


def _arrow_tables(place: str, stored: PlanTables) -> Tables[pa.Table]:
    """Return tables that this process reads when they are asked for."""

    def table(name: str) -> pa.Table:
        with without_pandas(), store_errors(place, "reading"):
            return to_arrow(stored.table(name).collect(), name)

    return Tables(stored.tables, table)


def _on_spark(spark: "SparkSession", place: str, version: int | None, topology: str | None) -> Plan:
    from penstock.engine.spark.session import has_delta, require_delta
    from penstock.engine.store.open_plan import read_plan as read_on_spark

    if topology is not None:
        raise ConfigurationError("topology and spark cannot be combined", "filter the tables by topology_id")
    if is_local(place) and not has_delta(spark):
        return _without_delta(spark, place, version)
    from penstock.engine.store.spark_tables import SparkTables

    delta = SparkTables(require_delta(spark), place)
    stored = open_plan_of(delta, version)
    frames = read_on_spark(delta, stored.version)
    tables = Tables(frames, frames.__getitem__, spark=spark)
    return _plan(place, stored, tables, stored.planned, stored.rejected, spark)


def _without_delta(spark: "SparkSession", place: str, version: int | None) -> Plan:
    """Open a plan for a session without Delta, whose tables this process reads on demand."""
    with without_pandas():
        stored = open_plan(place, version)
    arrow = _arrow_tables(place, stored)

    def dataframe(name: str) -> Any:
        made = arrow._made.get(name)
        return dataframe_of_table(spark, name, arrow._table(name) if made is None else made)

    tables = Tables(stored.tables, dataframe, spark=spark)
    return _plan(place, stored, tables, stored.planned, stored.rejected, spark, arrow)


def _plan(
    place: str,
    stored: PlanTables,
    tables: Tables,
    planned: int,
    rejected: int,
    spark: "SparkSession | None" = None,
    arrow: Tables | None = None,
) -> Plan:
    """Return a Plan; `arrow` are the same tables in Arrow if `tables` are DataFrames read here."""

    def write(target: str) -> VersionNumber:
        from penstock.engine.store.delta_rs_tables import DeltaRsTables
        from penstock.engine.store.write_plan import write_plan

        return write_plan(
            DeltaRsTables(target),
            {
                name: rows.toArrow() if is_spark_frame(rows) else rows
                for name, rows in (arrow or tables).items()
            },
            planner_version=stored.planner_version or "",
            options=dict(stored.options),
        )

    return Plan(
        tables,
        planned + rejected,
        planned,
        rejected,
        f"version {stored.version} of {shown_path(place)}",
        options=stored.options,
        planner_version=stored.planner_version,
        write=write,
        arrow=arrow,
        spark=spark,
    )
