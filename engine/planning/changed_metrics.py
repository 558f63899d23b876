"""Metrics of a job after a change of decisions, and the change itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

import numpy as np
import polars as pl

from penstock.engine.output.pieces import html_table
from penstock.plans.custom_planners.decisions import ANSWERS, Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable


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
