"""The one runner of all passes: it owns checkpoints, partitioning, timing and logging."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from penstock.plans.frames.packed_blocks import LEAST_PARTITIONS, PackedTables, partitioned
from penstock.plans.frames.spark_frames import join_local, no_rows
from penstock.plans.frames.spark_refusals import reject_refused
from penstock.plans.frames.spark_schemas import compute, free, keep, spark_schema, unless_ended
from penstock.plans.layers import LAYER_TABLES, Choices, layers_until
from penstock.plans.planners.hand_over_tables import Finished, tables_of_plan, with_hand_overs
from penstock.plans.planners.joins_passes import Expanded, FixedPoint, HandOver, JoinStep, View, Walk, steps
from penstock.plans.planners.run_steps import AnyStep, Done, run_steps
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.topology_tables import TopologyTables
from penstock.plans.vocabulary import Layer

Report = Callable[[str], None]
_LOG = logging.getLogger("penstock.passes")


@dataclass(slots=True)
class Planned:
    """The result of a run: the tables of a plan by name (see plans.tables.TABLES), and seconds by pass.

    `inputs`, `planned` and `rejected` count topologies, `rows_read` transformations and given stream nodes.
    `planner` made the plan, for the reason `why`. `packed`: what workers make some of the tables of.
    `kept` and `persisted` hold the storage of intermediate tables until `release`.
    """

    tables: dict[str, DataFrame]
    inputs: int
    seconds: dict[str, float]
    kept: list[DataFrame]
    persisted: tuple[DataFrame, ...]
    planned: int = 0
    rejected: int = 0
    rows_read: int = 0
    planner: str = ""
    why: str = ""
    packed: tuple[PackedTables, ...] = ()

    def release(self) -> None:
        """Give the storage of the intermediate tables back; the plan's tables can no longer be read."""
        for frame in self.kept:
            free(frame)
        for frame in self.persisted:
            with unless_ended(frame.sparkSession):
                frame.unpersist()


def run_passes(
    topology_tables: TopologyTables,
    until: Layer,
    partitions: int,
    report: Report = lambda stage: None,
    choices: Choices | None = None,
    finished: Finished | None = None,
) -> Planned:
    """All passes up to and including the layer `until`, over topologies partitioned `partitions` ways.

    Out: a Planned with the tables of all layers up to `until`, without refused topologies, and `rejected`.
    `finished` is handed most of these tables while later layers are planned. Use it for few topologies only:
    if one of them is refused, all tables are cleared.
    """
    layers = layers_until(until)
    wanted = {table: source for layer in layers for table, source in LAYER_TABLES[layer].items()}
    if topology_tables.topologies.isEmpty():
        return _nothing_planned(topology_tables, wanted)
    run = _Run(max(LEAST_PARTITIONS, partitions), report, finished)
    run.read(topology_tables)
    chosen = steps(choices or Choices(), until)
    run_steps(
        chosen if finished is None else with_hand_overs(chosen, until),
        {*wanted.values(), *_READ_AT_THE_END},
        run,
    )
    refused = [run.tables[refusals] for layer in layers if (refusals := f"{layer}_refusals") in run.tables]
    return run.planned(topology_tables, wanted, refused)


def _nothing_planned(topology_tables: TopologyTables, wanted: Iterable[str]) -> Planned:
    spark = topology_tables.topologies.sparkSession
    tables = {table: no_rows(spark, spark_schema(table)) for table in wanted}
    tables["rejected"] = topology_tables.rejected
    return Planned(tables, topology_tables.inputs, {}, [], topology_tables.persisted)


JOBS_OF = "penstock: "  # before a step's name in the description of its jobs, which Spark's pages show
_DESCRIPTION = "spark.job.description"
_READ_AT_THE_END = ("topologies", "job_settings", *(f"{layer}_refusals" for layer in Layer))


class _Begun(NamedTuple):
    """A step in a thread of its own, which will give its rows (a HandOver has none) and seconds.

    `counted` are the seconds of the steps that had ended when it began.
    """

    thread: Thread
    outcome: Future[tuple[DataFrame | None, float]]
    counted: float


class _Run:
    """Tables by name while passes run."""

    def __init__(self, partitions: int, report: Report, finished: Finished | None = None) -> None:
        self.partitions = partitions
        self.report = report
        self.finished = finished
        self.tables: dict[str, DataFrame] = {}
        self.seconds: dict[str, float] = {}
        self._kept: list[DataFrame] = []
        self.begun: dict[str, _Begun] = {}
        self.expanded: dict[str, Expanded] = {}
        self.planned_from: dict[str, DataFrame] = {}
        self.cancelled = Event()
        self.tag = f"penstock-steps-{uuid4().hex[:12]}"

    @property
    def session(self) -> SparkSession:
        return next(iter(self.tables.values())).sparkSession

    @property
    def plans_ahead(self) -> bool:
        """False with a checkpoint directory, because Spark computes tables kept there while it plans them."""
        return self.session.sparkContext.getCheckpointDir() is None

    def read(self, topology_tables: TopologyTables) -> None:
        self.report("partition topologies")
        started = time.monotonic()
        names = {"stream_nodes": "given_stream_nodes", "stream_edges": "given_stream_edges"}
        for name in ("topologies", "transformations", "job_settings", "stream_nodes", "stream_edges"):
            rows = partitioned(getattr(topology_tables, name), self.partitions)
            kept = self._keep(rows)
            compute(kept)
            self.tables[names.get(name, name)] = kept
        self.seconds["partition_topologies"] = time.monotonic() - started

    def name(self, name: str, step: View) -> None:
        """As plans.joins.run_steps.Steps, like the next five."""
        self.tables[name] = step.derive(**self._inputs(step))
        if isinstance(step, Expanded):
            self.expanded[name] = step

    def prepare(self, name: str, step: JoinStep) -> None:
        context = self.session.sparkContext
        said = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(f"{JOBS_OF}{name}")  # small tables are broadcast while the step is planned
        try:
            self.planned_from[name] = rows = self._derived(step, self._inputs(step))
            self.tables[name] = self._keep(rows)
        finally:
            context.setLocalProperty(_DESCRIPTION, said)  # type: ignore[arg-type]

    def begin(self, name: str, step: AnyStep, done: Done) -> None:
        if not isinstance(step, HandOver):
            self.report(name.replace("_", " "))
        outcome: Future[tuple[DataFrame | None, float]] = Future()
        context = self.session.sparkContext
        inputs = {**self.tables} if isinstance(step, HandOver) else self._inputs(step)
        prepared = self.tables.get(name)

        def compute_step() -> None:
            started = time.monotonic()
            context.addJobTag(self.tag)
            context.setJobDescription(f"{JOBS_OF}{name}")
            rows = None
            if isinstance(step, HandOver):
                self._hand_over(step, inputs)
            else:
                rows = self._computed(name, step, inputs, prepared)
            outcome.set_result((rows, time.monotonic() - started))

        inherit: Any = inheritable_thread_target(self.session)
        inherited = inherit(compute_step)

        def run() -> None:
            try:
                inherited()  # which may fail before the step does, if the JVM takes no more connections
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                done.put(name)

        thread = Thread(target=run, name=f"penstock-{name}", daemon=True)
        self.begun[name] = _Begun(thread, outcome, sum(self.seconds.values()))
        thread.start()

    def finish(self, name: str) -> None:
        begun = self.begun.pop(name)
        self.planned_from.pop(name, None)
        rows, seconds = begun.outcome.result()
        if rows is not None:
            self.tables[name] = rows
        # Time that overlaps with other steps counts as theirs, so that all steps add up to the run.
        beside = sum(self.seconds.values()) - begun.counted
        self.seconds[name] = max(0.0, seconds - beside)
        _LOG.info("%s: %.2f s", name, self.seconds[name])

    def cancel(self) -> None:
        # Cancel their jobs and wait for their threads.
        self.cancelled.set()
        for begun in self.begun.values():
            while begun.thread.is_alive():
                with suppress(Exception):  # the JVM may have ended
                    # Again and again: a walk may be about to begin its next job.
                    self.session.sparkContext.cancelJobsWithTag(self.tag)
                begun.thread.join(0.2)

    def free(self, name: str) -> None:
        rows = self.tables.pop(name)
        if rows in self._kept:
            self._kept.remove(rows)
            free(rows)

    def planned(
        self, topology_tables: TopologyTables, wanted: Mapping[str, str], refused: list[DataFrame]
    ) -> Planned:
        """The tables `wanted` (name in plans.tables.TABLES to the table of passes), and who is refused.

        A topology that two layers refuse is rejected once, for the earlier one: Flink does not get further.
        """
        rejected = topology_tables.rejected
        first = None
        for refusals in refused:
            new = refusals if first is None else join_local(refusals, first.select(TOPOLOGY), {}, "left_anti")
            first = new if first is None else first.unionByName(new)
        gone = None
        if first is not None:
            first, planned_from = self._keep(first), first
            compute(first)
            del planned_from
            rejected = rejected.unionByName(
                reject_refused(first, self.tables["topologies"], self.tables["job_settings"])
            )
            gone = first.select(TOPOLOGY)
            if self.finished is not None and not gone.isEmpty():
                self.finished.clear()
        tables, packed = tables_of_plan(wanted, self.tables, self.expanded, gone)
        tables["rejected"] = rejected
        inputs, persisted = topology_tables.inputs, topology_tables.persisted
        return Planned(tables, inputs, self.seconds, self._kept, persisted, packed=packed)

    def _inputs(self, step: AnyStep) -> Mapping[str, DataFrame]:
        return {name: self.tables[name] for name in step.reads}

    def _hand_over(self, step: HandOver, inputs: Mapping[str, DataFrame]) -> None:
        assert self.finished is not None
        if all(inputs[name].isEmpty() for name in step.refusals):
            self._go_on()
            self.finished.add(*tables_of_plan(step.tables, inputs, self.expanded, None))

    def _computed(
        self, name: str, step: JoinStep, inputs: Mapping[str, DataFrame], prepared: DataFrame | None
    ) -> DataFrame:
        if prepared is None:
            rows = self._derived(step, inputs)
            self._go_on()
            prepared = self._keep(rows)
        compute(prepared)
        if isinstance(step, FixedPoint):
            rounds = 0
            while not prepared.filter("open").isEmpty():
                self._go_on()
                rows = step.step(prepared)
                further = self._keep(rows)
                compute(further)
                self._kept.remove(prepared)
                free(prepared)
                prepared = further
                rounds += 1
            _LOG.info("%s: %d rounds", name, rounds)
        return prepared

    def _derived(self, step: JoinStep, inputs: Mapping[str, DataFrame]) -> DataFrame:
        rows = step.derive(**inputs)
        return partitioned(rows, self.partitions) if isinstance(step, Walk) else rows

    def _go_on(self) -> None:
        if self.cancelled.is_set():
            raise RuntimeError("the run has failed")

    def _keep(self, rows: DataFrame) -> DataFrame:
        kept = keep(rows)
        self._kept.append(kept)
        return kept
