"""Metrics of a job after a change of decisions, as a library call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, cast

from penstock.plans.custom_planners.decisions import ANSWERS, Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.metrics.neighbours.job_metrics import JobMetrics


class Change(TypedDict, total=False):
    """Decisions about one job, by what is decided; keys and values are those of planners' answers.

    Edges are (target, in_index), tasks (vertex, subtask); the others are an operator or a vertex.
    """

    chaining: Mapping[tuple[int, int], bool]
    slot_sharing_groups: Mapping[int, str | int]
    parallelism: Mapping[int, int]
    partitioners: Mapping[tuple[int, int], str]
    execution_slot_sharing_groups: Mapping[tuple[int, int], int]


Decided = Mapping[str, Mapping[Any, Any]]
"""A Change, for code that looks at all decisions alike."""


@dataclass(slots=True)
class ChangedMetrics(JobMetrics):
    """The metrics of one job with the decisions of `change`, all those since the plan that was measured."""

    change: Change = field(default_factory=Change)
    evaluate: "Callable[[Change, Change], ChangedMetrics] | None" = field(
        default=None, repr=False, compare=False
    )

    def after(self, change: Change) -> "ChangedMetrics":
        """The metrics after a further change, as Measured.after."""
        assert self.evaluate is not None
        return self.evaluate(self.change, change)


_KEYS = {decision.value: (answer.of, answer.keys, answer.value) for decision, answer in ANSWERS.items()}
_ALLOWED = ", ".join(decision.value for decision in Decision if decision is not Decision.PLAN)
_TYPES = {
    "chainable": (bool,),
    "parallelism": (int,),
    "partitioner": (str,),
    "slot_sharing_group": (str, int),
}


def checked(change: Any) -> Decided:
    """`change`, if it is a Change; which edges and vertices there are is not looked at.

    Raises ConfigurationError.
    """
    if not isinstance(change, Mapping):
        raise ConfigurationError(
            f"change: found {type(change).__name__}, allowed a dict of decisions",
            '{"chaining": {(4, 0): False}}: the edge into operator 4 with in_index 0 is not chained',
        )
    for decision, values in change.items():
        if decision not in _KEYS:
            raise ConfigurationError(f"change: found {decision!r}, allowed {_ALLOWED}")
        _, keys, value = _KEYS[decision]
        if not isinstance(values, Mapping):
            raise ConfigurationError(
                f"change: {decision}: found {type(values).__name__}, "
                f"allowed a dict of {_key(keys)} to {value}"
            )
        types = _TYPES.get(value, (int,))
        for key, chosen in values.items():
            _require(decision, keys, key)
            if not isinstance(chosen, types) or (isinstance(chosen, bool) and bool not in types):
                allowed = " or ".join(kind.__name__ for kind in types)
                raise ConfigurationError(
                    f"change: {decision}: {key}: found {chosen!r}, allowed a {allowed} ({value})"
                )
    return cast(Decided, change)


def _require(decision: str, keys: tuple[str, ...], key: Any) -> None:
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(keys) or not all(type(part) is int for part in parts):
        raise ConfigurationError(f"change: {decision}: found the key {key!r}, allowed {_key(keys)}")


def _key(keys: tuple[str, ...]) -> str:
    return keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
