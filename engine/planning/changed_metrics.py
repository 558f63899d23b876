"""Metrics of a job after a change of decisions: over arrays if possible, else by planning the whole job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
import polars as pl

from penstock.engine.output.pieces import html_table
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
from penstock.plans.custom_planners.decisions import ANSWERS, Decision, decides
from penstock.plans.errors import BrokenInvariantError, ConfigurationError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.job_by_arrays import JobByArrays, job_by_arrays
from penstock.plans.metrics.plan_metrics import METRICS, plan_metrics
from penstock.plans.metrics.rates_and_loads import Constants
from penstock.plans.printable import printable
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import TopologyForm


@dataclass(slots=True)
class JobMetrics:
    """The metrics of one job; plan_metrics.METRICS has their units and meanings."""

    operators: int
    vertices: int
    mean_chain_length: float
    longest_chain: int
    tasks: int
    execution_edges: int
    channels: int
    slots: int
    task_managers: int
    network_buffers: int
    network_bytes: int
    managed_bytes_per_slot: int
    tasks_of_fullest_slot: int
    slot_imbalance: float
    critical_path: int
    exchanged_bytes_per_second: float
    shuffled_bytes_per_second: float
    remote_bytes_per_second: float
    cpu_load: float
    exchange_cpu_load: float
    utilisation: float
    slot_utilisation: float
    network_utilisation: float
    bottleneck: str | None
    source_records_per_second: float
    delivered_records_per_second: float
    sustained_records_per_second: float | None
    sustained_per_slot: float | None
    needed_tasks: int


class Change(TypedDict, total=False):
    """Decisions about one job, for `PlanMetrics.after` and `ChangedMetrics.after`.

    A dict with any of these keys: chaining and partitioners by edge (target, in_index), parallelism by
    operator, slot_sharing_groups by vertex, execution_slot_sharing_groups by task (vertex, subtask). Values
    are those that docs/custom-planners.md allows.

    Examples:
        >>> change: penstock.Change = {"chaining": {(2, 0): False}}
    """

    chaining: Mapping[tuple[int, int], bool]
    slot_sharing_groups: Mapping[int, str | int]
    parallelism: Mapping[int, int]
    partitioners: Mapping[tuple[int, int], str]
    execution_slot_sharing_groups: Mapping[tuple[int, int], int]


Decided = Mapping[str, Mapping[Any, Any]]
"""A Change, for code that treats all decisions alike."""


@dataclass(slots=True)
class ChangedMetrics(JobMetrics):
    """The metrics of one job after `change`, which holds all decisions since the plan that was measured.

    Its other attributes are the metrics of docs/costs-and-metrics.md.

    Attributes:
        change: The decisions since the measured plan.
    """

    change: Change = field(default_factory=Change)
    evaluate: "Callable[[Change, Change], ChangedMetrics] | None" = field(
        default=None, repr=False, compare=False
    )

    def after(self, change: Change) -> "ChangedMetrics":
        """Compute the metrics after a further change.

        Args:
            change: As for `PlanMetrics.after`.

        Returns:
            ChangedMetrics: With both changes.

        Raises:
            ConfigurationError: The change is invalid, or these metrics come from another process.
            BrokenInvariantError: The change breaks a rule of Flink's.
        """
        if self.evaluate is None:
            raise ConfigurationError(
                "after() must be called in the process of the metrics", "pass their change to Measured.after"
            )
        return self.evaluate(self.change, change)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return all attributes except the job, which stays in its process."""
        return None, {**{each.name: getattr(self, each.name) for each in fields(self)}, "evaluate": None}

    def _repr_html_(self) -> str:
        rows = [(each.name, printable(str(getattr(self, each.name)))) for each in fields(JobMetrics)]
        return html_table("Metrics of a job after a change", ("metric", "value"), rows)


_ALLOWED = ", ".join(decision.value for decision in Decision if decision is not Decision.PLAN)
_TYPES = {
    Decision.CHAINING: "bool",
    Decision.PARTITIONERS: "str",
    Decision.SLOT_SHARING_GROUPS: "str or int",
    Decision.PARALLELISM: "int",
    Decision.EXECUTION_SLOT_SHARING_GROUPS: "int",
}
_LARGEST = {Decision.PARALLELISM: 2**31 - 1, Decision.EXECUTION_SLOT_SHARING_GROUPS: 2**63 - 1}
_LARGEST_ID = 2**31 - 1


def checked_change(change: Any) -> Decided:
    """Return a Change with plain Python values in place of NumPy's.

    Whether edges and vertices exist is not checked here. Raises ConfigurationError if it is not a Change.
    """
    if not isinstance(change, Mapping):
        raise ConfigurationError(
            f"change must be a dict of decisions, got {type(change).__name__}",
            '{"chaining": {(4, 0): False}}: the edge into operator 4 with in_index 0 is not chained',
        )
    plain: dict[str, dict[Any, Any]] = {}
    for decision, values in change.items():
        if decision not in ANSWERS:
            raise ConfigurationError(f"keys of change must be decisions ({_ALLOWED}), got {decision!r}")
        known, answer = Decision(decision), ANSWERS[decision]
        if not isinstance(values, Mapping):
            raise ConfigurationError(
                f"change: {decision} must be a dict of {_key(answer.keys)} to {answer.value}, "
                f"got {type(values).__name__}"
            )
        plain[decision] = {
            _plain_key(decision, answer.keys, key): _plain_value(known, key, value)
            for key, value in values.items()
        }
    return plain


def _plain_key(decision: str, keys: tuple[str, ...], key: Any) -> Any:
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(keys) or not all(_is_whole(part, _LARGEST_ID) for part in parts):
        raise ConfigurationError(f"change: keys of {decision} must be {_key(keys)}, got {key!r}")
    if all(type(part) is int for part in parts):
        return key
    return tuple(map(int, parts)) if isinstance(key, tuple) else int(key)


def _plain_value(decision: Decision, key: Any, value: Any) -> Any:
    allowed, largest = _TYPES[decision], _LARGEST.get(decision)
    if allowed == "bool" and isinstance(value, bool | np.bool_):
        return bool(value)
    if allowed.startswith("str") and isinstance(value, str):
        return value
    if allowed.endswith("int") and _is_whole(value, largest):
        return int(value)
    raise ConfigurationError(
        f"change: {decision}: {key} must map to a {allowed} ({ANSWERS[decision].value}), got {value!r}",
        f"at most {largest}" if isinstance(value, int) and largest is not None else None,
    )


def _is_whole(value: Any, largest: int | None) -> bool:
    """Return whether a value is a whole number, NumPy's included, within the limit."""
    is_whole = isinstance(value, int | np.integer)
    return is_whole and not isinstance(value, bool) and (largest is None or -largest <= value <= largest)


def _key(keys: tuple[str, ...]) -> str:
    return keys[0] if len(keys) == 1 else f"({', '.join(keys)})"


Frames = Mapping[str, pl.DataFrame]
Costs = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]


# One job of a plan, whose decisions change.


class Setting(NamedTuple):
    """Options, costs and constants for planning and measuring."""

    options: PlanOptions
    costs: Costs
    constants: Constants


class ChangedJob:
    """One job of a plan, whose decisions change. Threads may share it; evaluations run one by one."""

    def __init__(self, tables: Frames, setting: Setting) -> None:
        """Take `tables`, Flink's plan of this job with all layers."""
        self._tables, self._setting = tables, setting
        self.name: str = tables["topologies"]["name"][0]
        self._arrays = self._by_arrays()
        self._lock = Lock()

    def after(self, before: Change, change: Change) -> ChangedMetrics:
        """Return the metrics under the decisions of `before`, which were evaluated, followed by `change`."""
        wanted = checked_change(change)
        decided = dict(cast(Decided, before))
        for name, values in wanted.items():
            decided[name] = {**decided.get(name, {}), **values}
        if self._arrays is not None and decided.keys() <= _ARRAYS:
            with self._lock:
                metrics = self._arrays.evaluate(decided, wanted)
            if metrics is not None:
                return self._metrics(dict(zip(METRICS, metrics, strict=True)), decided)
        row = self._planned(decided, wanted)
        return self._metrics({name: row[name] for name in METRICS}, decided)

    def _metrics(self, row: dict[str, Any], decided: Decided) -> ChangedMetrics:
        return ChangedMetrics(**row, change=cast(Change, decided), evaluate=self.after)

    def _by_arrays(self) -> JobByArrays | None:
        def plan_apart() -> Frames | None:
            edges = self._tables["stream_edges"]
            keys = edges.select("target", "in_index").rows()
            planned = self._plan({"chaining": dict.fromkeys(keys, False)}, {})
            return None if planned["topologies"].is_empty() else planned

        return job_by_arrays(self._tables, plan_apart, self._setting.options, *self._setting[1:])

    def _plan(self, decided: Decided, new: Decided) -> Frames:
        """Return the plan under decisions; decisions about vertices that no longer exist are ignored."""
        answers = [
            _answers(Decision(name), values, new.get(name, {}), self._tables)
            for name, values in decided.items()
        ]
        planners = find_custom_planners(answers) if answers else []
        planned = plan_by_custom_planners(self._topology(), planners, self._setting.options)
        return {name: from_arrow(rows) for name, rows in planned.tables.items()}

    def _topology(self) -> TopologyTables:
        """The tables of the topology layer."""
        names = ("topologies", "transformations", "job_settings")
        frames = {name: self._tables[name] for name in names} | {"rejected": empty("rejected")}
        is_given = self._tables["topologies"]["form"][0] == TopologyForm.STREAM_GRAPH.value
        for name in ("stream_nodes", "stream_edges"):
            frames[name] = self._tables[name] if is_given else empty(name)
        return TopologyTables.of(frames)

    def _planned(self, decided: Decided, new: Decided) -> dict[str, Any]:
        tables = self._plan(decided, new)
        if tables["topologies"].is_empty():
            (error,) = tables["rejected"]["errors"].to_list()
            raise BrokenInvariantError(
                f"{self.name}: "
                + "\n".join(
                    f"{violation['error']}: {violation['location']}: got "
                    f"{violation['found']}; must be {violation['allowed']}"
                    for violation in error
                )
                if error
                else f"{self.name}: {tables['rejected']['message'][0]}"
            )
        options, costs, constants = self._setting
        metrics = plan_metrics(
            tables,
            costs(tables["stream_nodes"], tables["stream_edges"]),
            options.task_manager,
            options.network,
            constants,
        )
        return metrics.plans.row(0, named=True)


_ARRAYS = {Decision.CHAINING.value, Decision.SLOT_SHARING_GROUPS.value}


def _answers(
    decision: Decision, values: Mapping[Any, Any], new: Mapping[Any, Any], tables: Frames
) -> Callable[..., Any]:
    """Return a planner that answers `values`, those about vertices only if the vertex exists or is `new`."""
    answer_form = ANSWERS[decision]
    topology = tables["topologies"][TOPOLOGY][0]
    keys = [key if isinstance(key, tuple) else (key,) for key in values]
    rows = pl.DataFrame(
        {
            TOPOLOGY: np.full(len(keys), topology, np.int64),
            **{
                name: pl.Series([key[place] for key in keys], dtype=pl.Int32)
                for place, name in enumerate(answer_form.keys)
            },
            answer_form.value: pl.Series(
                [str(value) if answer_form.kind == pl.String() else value for value in values.values()],
                dtype=answer_form.kind,
            ),
        }
    )
    if decision is not Decision.SLOT_SHARING_GROUPS:

        def answer() -> pl.DataFrame:
            return rows

        return decides(decision)(answer)
    new_vertices = pl.Series(list(new), dtype=pl.Int32)

    def answer_of_vertices(job_vertices: pl.DataFrame) -> pl.DataFrame:
        known = pl.concat([job_vertices["vertex"], new_vertices])
        return rows.filter(pl.col("vertex").is_in(known.implode()))

    return decides(decision)(answer_of_vertices)
