"""The one runner of all passes: it owns checkpoints, partitioning, timing and logging."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from penstock.plans.frames.packed_blocks import LEAST_PARTITIONS, PackedTables, partitioned
from penstock.plans.frames.spark_frames import join_local, no_rows, reject_refused
from penstock.plans.frames.spark_schemas import compute, free, keep, spark_schema, unless_ended
from penstock.plans.layers import LAYER_TABLES, Choices, layers_until
from penstock.plans.passes import GIVEN
from penstock.plans.planners.joins_passes import (
    Expanded,
    Expansion,
    FixedPoint,
    HandOver,
    JoinStep,
    View,
    Walk,
    packed_expansions,
    steps,
)
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Layer

# The order in which steps run: one after another, each planned while the one before is computed.
#
# Walks and the storing of tables run in parallel with steps that do not need them.


AFTER_ALL_STEPS = "after all steps"
"""Who reads tables that are wanted when all steps are done."""

Done = SimpleQueue[str]
"""Names of steps, as they end."""

AnyStep = JoinStep | HandOver


class Steps(Protocol):
    """Runs steps and keeps their rows."""

    @property
    def plans_ahead(self) -> bool:
        """Whether a step may be planned while the one before it is computed."""

    def name(self, name: str, step: View) -> None:
        """Name what the readers of a view will compute."""

    def prepare(self, name: str, step: JoinStep) -> None:
        """Plan how a table is computed."""

    def begin(self, name: str, step: AnyStep, done: Done) -> None:
        """Start to compute a table, or to hand tables over.

        The name is put into `done` when that has ended, or has failed.
        """

    def finish(self, name: str) -> None:
        """Take what was begun, or raise what that has raised."""

    def free(self, name: str) -> None:
        """Give back the storage of a table that no later step reads."""

    def cancel(self) -> None:
        """Stop the steps that have begun."""


def run_steps(chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str], steps: Steps) -> None:
    """Run all steps, each once the tables that it reads exist, and free tables after their last reader.

    Steps are computed one after another in the order of `chosen`, those that a walk needs before others;
    Spark's driver plans the next step meanwhile. A walk mostly keeps a single core busy, so it begins as soon
    as it can, in parallel with other steps. So does a HandOver. `stored`: tables that are read after all
    steps.
    """
    order = _Order(chosen, stored, steps)
    try:
        while not order.ended():
            order.go_on()
    except BaseException:
        steps.cancel()
        raise


class _Order:
    """The steps that are left, those being computed (`running`, and walks), and the next (`ahead`)."""

    def __init__(self, chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str], steps: Steps) -> None:
        self.steps = steps
        views = {name: step for name, step in chosen if isinstance(step, View)}
        self.needs = {n: _with_views(step.reads, views) - views.keys() for n, step in chosen}
        awaited = _awaited_by_walks(chosen, self.needs)
        self.left = dict(sorted(chosen, key=lambda named: named[0] not in awaited))
        self.reading = readers(chosen, stored)
        self.unnamed = set(self.left)
        self.uncomputed = self.left.keys() - views.keys()
        self.beside = set[str]()
        self.running: str | None = None
        self.ahead: tuple[str, JoinStep] | None = None
        self.done = Done()

    def ended(self) -> bool:
        return not self.left and not self.uncomputed

    def go_on(self) -> None:
        """Begin what can be, prepare one step more, or wait for one that was begun."""
        while not self.done.empty():
            self._take(self.done.get())
        for name, step in list(self.left.items()):
            if isinstance(step, View) and self._is_named(step):
                self.steps.name(name, step)
                del self.left[name]
                self.unnamed.discard(name)
            elif isinstance(step, _BESIDE) and self._is_named(step) and self._is_computed(name):
                del self.left[name]
                self._begin(name, step)
        if self.ahead is not None and self._may_begin(*self.ahead):
            (name, step), self.ahead = self.ahead, None
            self._begin(name, step)
        is_begun = self.beside or self.running is not None
        if (self.ahead is not None or not self._look_ahead()) and is_begun:
            self._take(self.done.get())

    def _look_ahead(self) -> bool:
        """Whether there was a step to prepare, or to begin."""
        for name, step in self.left.items():
            if isinstance(step, View | HandOver) or not self._is_named(step):
                continue
            if isinstance(step, FixedPoint) or not self.steps.plans_ahead:
                if not self._may_begin(name, step):
                    continue
                self._begin(name, step)
            elif self.needs[name] & self.uncomputed <= {self.running}:
                self.steps.prepare(name, step)
                self.ahead = name, step
                self.unnamed.discard(name)
            else:
                continue
            del self.left[name]
            return True
        return False

    def _begin(self, name: str, step: AnyStep) -> None:
        if isinstance(step, _BESIDE):
            self.beside.add(name)
        else:
            self.running = name
        self.steps.begin(name, step, self.done)

    def _may_begin(self, name: str, step: JoinStep) -> bool:
        return self._is_computed(name) and (isinstance(step, Walk) or self.running is None)

    def _is_named(self, step: AnyStep) -> bool:
        return not self.unnamed & set(step.reads)

    def _is_computed(self, name: str) -> bool:
        return not self.needs[name] & self.uncomputed

    def _take(self, name: str) -> None:
        self.beside.discard(name)
        if self.running == name:
            self.running = None
        self.steps.finish(name)
        self.unnamed.discard(name)
        self.uncomputed.discard(name)
        for table in [table for table, of_table in self.reading.items() if name in of_table]:
            self.reading[table].discard(name)
            if not self.reading[table]:
                del self.reading[table]
                self.steps.free(table)


_BESIDE = (Walk, HandOver)


def _awaited_by_walks(chosen: Sequence[tuple[str, AnyStep]], needs: Mapping[str, set[str]]) -> set[str]:
    """The steps without which a walk cannot begin, and the walks."""
    awaited_steps: set[str] = set()
    for name, step in reversed(chosen):  # no step reads the table of a later one
        if isinstance(step, Walk) or name in awaited_steps:
            awaited_steps |= {name, *needs[name]}
    return awaited_steps


def readers(chosen: Sequence[tuple[str, AnyStep]], stored: Collection[str]) -> dict[str, set[str]]:
    """Table to the steps that read it. What a view reads is read by those that read the view."""
    views = {name: step for name, step in chosen if isinstance(step, View)}
    steps_by_table: dict[str, set[str]] = {}
    for name, step in chosen:
        if name not in views:
            for table in _with_views(step.reads, views):
                steps_by_table.setdefault(table, set()).add(name)
    for table in _with_views(stored, views):
        steps_by_table.setdefault(table, set()).add(AFTER_ALL_STEPS)
    return steps_by_table


def _with_views(names: Collection[str], views: Mapping[str, View]) -> set[str]:
    """The tables `names`, and all tables that the views among them read."""
    tables = set(names)
    for name in names:
        if name in views:
            tables |= _with_views(views[name].reads, views)
    return tables


# The tables of a plan as they are handed over to what stores them.


class Finished(Protocol):
    """Receives the tables of a plan as soon as no pass of a layer can refuse their topologies."""

    def expect(self, rows: int) -> None:
        """About how many rows a table has; said before the first comes."""

    def add(self, tables: Mapping[str, DataFrame], packed: Sequence[PackedTables]) -> None:
        """Take the rows of `tables` (keys of plans.tables.TABLES); workers derive some from `packed`.

        No table comes twice. Called from several threads at once.
        """

    def clear(self) -> None:
        """Drop the rows of all tables that have come: Flink refuses a topology of theirs."""


def with_hand_overs(chosen: Sequence[tuple[str, JoinStep]], until: Layer) -> list[tuple[str, AnyStep]]:
    """`chosen` (see plans.joins.passes.steps), and a HandOver for each layer that can refuse topologies.

    The HandOver of a layer has the tables that are complete once its passes and those of earlier layers have
    run. Tables that need later passes are left to the caller.
    """
    places = {name: place for place, (name, _) in enumerate(chosen)}
    views = {name: step for name, step in chosen if isinstance(step, View)}
    layers = layers_until(until)
    open_tables = {table: source for layer in layers for table, source in LAYER_TABLES[layer].items()}
    refusals = tuple(name for layer in layers if (name := f"{layer}_refusals") in places)
    handed_over: dict[int, tuple[str, HandOver]] = {}
    for known, name in enumerate(refusals, 1):
        computed = {*GIVEN, *(other for other in places if places[other] <= places[name])}
        ready_tables = {
            t: s for t, s in open_tables.items() if _with_views([s], views) - views.keys() <= computed
        }
        open_tables = {table: source for table, source in open_tables.items() if table not in ready_tables}
        last = max(places.get(source, 0) for source in (name, *ready_tables.values()))
        handed_over[last] = (
            f"{name.removesuffix('_refusals')}_tables",
            HandOver(ready_tables, refusals[:known]),
        )
    in_order: list[tuple[str, AnyStep]] = []
    for place, step in enumerate(chosen):
        in_order += [step, handed_over[place]] if place in handed_over else [step]
    return in_order


def _tables_of_plan(
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

    def only_planned(rows: DataFrame) -> DataFrame:
        return rows if refused is None else join_local(rows, refused, {}, "left_anti")

    plan_tables: dict[str, DataFrame] = {}
    by_source: dict[str, tuple[DataFrame, list[Expansion]]] = {}
    for table, produced in wanted.items():
        step = expanded.get(produced)
        if step is None:
            rows = only_planned(tables[produced])
        else:
            # Refused topologies are removed before their rows multiply.
            (few,) = step.reads
            before, expansions = by_source.setdefault(few, (only_planned(tables[few]), []))
            expansions.append(step.expansion)
            rows = step.derive(**{few: before})
        plan_tables[table] = rows.select(*TABLES[table].names)
    return plan_tables, tuple(packed_expansions(*of_rows) for of_rows in by_source.values())


Report = Callable[[str], None]
_LOG = logging.getLogger("penstock.passes")


@dataclass(slots=True)
class Planned:
    """The result of a run: the tables of a plan by name (see plans.tables.TABLES), and seconds by pass.

    `inputs`, `planned` and `rejected` count topologies, the last two if `is_counted`; `rows_read` counts
    transformations and given stream nodes. `planner` made the plan, for the reason `why`. `packed`: what
    workers make some of the tables of.
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
    is_counted: bool = False

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
        tables, packed = _tables_of_plan(wanted, self.tables, self.expanded, gone)
        tables["rejected"] = rejected
        inputs, persisted = topology_tables.inputs, topology_tables.persisted
        return Planned(tables, inputs, self.seconds, self._kept, persisted, packed=packed)

    def _inputs(self, step: AnyStep) -> Mapping[str, DataFrame]:
        return {name: self.tables[name] for name in step.reads}

    def _hand_over(self, step: HandOver, inputs: Mapping[str, DataFrame]) -> None:
        assert self.finished is not None
        if all(inputs[name].isEmpty() for name in step.refusals):
            self._go_on()
            self.finished.add(*_tables_of_plan(step.tables, inputs, self.expanded, None))

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
