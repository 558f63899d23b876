"""Write the tables of one plan as a new version without Spark, or find that nothing has changed."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa

from engine.store.plan_versions import PlanVersion, State
from engine.store.require_target import require_target
from engine.store.store_errors import store_errors
from engine.store.without_spark.delta_tables import append_rows
from engine.store.without_spark.discard import discard, set_aside_unreadable
from engine.store.without_spark.listed_files import recorded_files
from engine.store.without_spark.plan_versions import is_store, publish
from engine.store.without_spark.unchanged_topologies import nothing_changed
from engine.store.write_plan import PARALLEL_WRITES, new_write_id, require_plan
from plans.tables import TABLES


def write_plan(
    store: str, tables: Mapping[str, pa.Table], *, planner_version: str, options: Mapping[str, str]
) -> int:
    """The number of the version that holds `tables` (name to Arrow table, as in plans.tables.TABLES).

    As engine.store.write_plan: nothing is written if the newest version has the same topologies and refusals,
    nothing is seen before the manifest's row, and a write that fails deletes its rows and files. Raises
    StoreError, MachineError and SchemaError.
    """
    require_plan(tables)
    if is_store(store):
        version = nothing_changed(store, tables, planner_version=planner_version, options=options)
        if version is not None:
            return version
    return write_version(store, tables, planner_version=planner_version, options=options)


def write_version(
    store: str, tables: Mapping[str, pa.Table], *, planner_version: str, options: Mapping[str, str]
) -> int:
    """As write_plan, but a new version in any case: a run is one even where its plan is not new."""
    require_plan(tables)
    require_target(store)
    write_id = new_write_id()
    with store_errors(store, "writing"):
        try:
            set_aside_unreadable(store, tables)
            _append_all(store, tables, write_id)
            return publish_write(
                store, tables, write_id, _counted(tables), planner_version=planner_version, options=options
            )
        except BaseException:
            discard(store, tables, write_id)
            raise


def publish_write(
    store: str,
    tables: Collection[str],
    write_id: str,
    counted: tuple[int, int],
    *,
    planner_version: str,
    options: Mapping[str, str],
) -> int:
    """The number of the version that a write becomes whose `tables` are all appended.

    `counted`: its topologies and rejected ones.
    """
    topologies, rejected = counted
    candidate = PlanVersion(
        version=None,
        write_id=write_id,
        state=State.COMPLETE,
        published_at=datetime.now(UTC),
        planner_version=planner_version,
        options=options,
        tables=tuple(name for name in TABLES if name in tables),
        topologies=topologies,
        rejected=rejected,
        files=recorded_files(store, tables, write_id),
    )
    return publish(store, candidate)


def _counted(tables: Mapping[str, pa.Table]) -> tuple[int, int]:
    return len(tables["topologies"]), len(tables["rejected"]) if "rejected" in tables else 0


def _append_all(store: str, tables: Mapping[str, pa.Table], write_id: str) -> None:
    with ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="penstock-store") as pool:
        writes = [pool.submit(append_rows, store, table, rows, write_id) for table, rows in tables.items()]
    for write in writes:
        write.result()
