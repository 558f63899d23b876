"""Write tables of a plan on Spark while its later layers are planned."""

from collections.abc import Mapping, Sequence
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from engine.store.discard import discard, set_aside_unreadable
from engine.store.plan_versions import start_manifest
from engine.store.require_target import require_target
from engine.store.store_errors import store_errors
from engine.store.tables_of_spark import tables_of_spark
from engine.store.write_plan import Begun, new_write_id, write_plan
from plans.joins.packed_tables import PackedTables
from plans.joins.run_passes import Planned
from plans.tables import TABLES


class WriteLayers:
    """A write to a store, to which passes hand tables over (see plans.joins.hand_over_tables.Finished).

    Nothing of it can be read before `publish`; every other end of it is `discard`.
    """

    def __init__(self, spark: SparkSession, store: str) -> None:
        self._spark = spark
        self._store = store
        self._write_id = new_write_id()
        self._begun: set[str] = set()
        self._written: set[str] = set()
        self._starting = Lock()

    def add(self, tables: Mapping[str, DataFrame], packed: Sequence[PackedTables]) -> None:
        """As Finished. Raises StoreError, MachineError and SchemaError."""
        delta = tables_of_spark(self._spark, self._store, packed)
        with store_errors(self._store, "writing"):
            with self._starting:
                if not self._begun:
                    require_target(self._store)
                    start_manifest(delta)
                    set_aside_unreadable(self._store, TABLES)
                self._begun |= tables.keys()
            delta.append_all(tables, self._write_id, {})
            self._written |= tables.keys()

    def clear(self) -> None:
        """As Finished."""
        self.discard()
        self._write_id, self._begun, self._written = new_write_id(), set(), set()

    def publish(self, planned: Planned, *, planner_version: str, options: Mapping[str, str]) -> int:
        """The number of the version that holds what `planned` holds, as engine.store.write_plan."""
        return write_plan(
            tables_of_spark(self._spark, self._store, planned.packed),
            planned.tables,
            planner_version=planner_version,
            options=options,
            rows=dict.fromkeys(planned.tables, planned.rows_read),
            begun=Begun(self._write_id, self._written),
        )

    def discard(self) -> None:
        """Delete what was written, unless it was published."""
        if self._begun:
            discard(tables_of_spark(self._spark, self._store), self._begun, self._write_id)
