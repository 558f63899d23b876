"""What planners return: the tables of a plan and its numbers, in memory or as a version of a store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.engine.output.progress import Report
from penstock.engine.store.store_location import Location
from penstock.engine.store.store_tables import VersionNumber
from penstock.plans.errors import LostTopologiesError
from penstock.plans.installation import own_version
from penstock.plans.layers import PlanOptions

if TYPE_CHECKING:
    from penstock.engine.store.write_plan import WriteInProgress
    from penstock.plans.frames.packed_blocks import PackedTables


@dataclass(slots=True)
class PlanResult:
    """The plans of all topologies of an input.

    `tables` maps the names of plans.tables.TABLES to Arrow tables, or to DataFrames if Spark planned; it is
    empty if the plan is `version` of a store. `inputs`, `planned` and `rejected` count topologies: inputs =
    planned + rejected. `seconds` are by stage. `planner` made the plan, for the reason `why`.

    Of DataFrames, `rows_read` counts the transformations and given stream nodes from which they derive,
    `packed` are packed rows from which workers derive some of them, and `storage` frees what Spark keeps of
    them.
    """

    tables: dict[str, Any]
    inputs: int
    planned: int
    rejected: int
    seconds: dict[str, float]
    planner: str = ""
    why: str = ""
    version: VersionNumber | None = None
    rows_read: int = 0
    packed: "tuple[PackedTables, ...]" = ()
    storage: tuple[Callable[[], object], ...] = ()

    @property
    def spark(self) -> Any:
        """The session of the DataFrames; None for Arrow tables."""
        return getattr(self.tables.get("topologies"), "sparkSession", None)

    def release(self) -> None:
        """Free the storage of intermediate tables in Spark; the plan's DataFrames cannot be read then."""
        freed, self.storage = self.storage, ()
        for free in freed:
            free()

    def write(
        self, store: str | Location, options: Mapping[str, str], begun: "WriteInProgress | None" = None
    ) -> VersionNumber:
        """Write the tables as a new version of a store, DataFrames by Spark.

        `options` are recorded. For `begun`, the version that is returned, and errors see
        engine.store.write_plan.
        """
        from penstock.engine.store.write_plan import write_plan

        version = own_version()
        if self.spark is None:
            from penstock.engine.store.delta_rs_tables import DeltaRsTables

            return write_plan(DeltaRsTables(store), self.tables, planner_version=version, options=options)
        from penstock.engine.store.spark_tables import tables_of_spark

        return write_plan(
            tables_of_spark(self.spark, store, self.packed),
            self.tables,
            planner_version=version,
            options=options,
            rows=dict.fromkeys(self.tables, self.rows_read),
            begun=begun,
        )

    def stored(self, version: VersionNumber) -> "PlanResult":
        """Return the result of a plan that was written: numbers and the version, without tables."""
        return replace(self, tables={}, version=version, packed=(), storage=())


class PlanTopologies(Protocol):
    """A planner: a function from topologies to their plans, in memory or in a new version of a store."""

    def __call__(
        self,
        source: Any,
        options: PlanOptions,
        out: str | None,
        report: Report,
        /,
    ) -> PlanResult:
        """Plan the topologies of `source`, in any form that the planner reads.

        The tables of the result are in memory, or, if `out` is the path of a store, in its new version.
        Topologies that are wrong, or that Flink refuses, are rows of `rejected` and of no other table.
        `report` is called with the name of each stage as it starts.
        """


# The invariant of every run: each topology of the input is either planned or rejected, exactly once.


_HINT = "this is a bug in Penstock: please report it with the input"


def require_nothing_lost(inputs: int, planned: int, rejected: int, planned_ids: int) -> None:
    """Raise LostTopologiesError unless each topology is planned or rejected, once, under a key of its own.

    `inputs`: topologies in the input, which must equal `planned` + `rejected`: rows of the plan's tables
    `topologies` and `rejected`, which export, show and rejected list; `planned_ids`: distinct topology_ids in
    `topologies`. A row of `rejected` may have the key of a planned topology (a duplicate name), so no row is
    ever removed from `topologies` by the key of a rejected row.
    """
    if inputs != planned + rejected:
        raise LostTopologiesError(
            f"the input has {inputs} topologies, but {planned} are planned and {rejected} rejected", _HINT
        )
    if planned_ids != planned:
        raise LostTopologiesError(
            f"{planned} topologies are planned, with only {planned_ids} different topology_ids",
            _HINT,
        )
