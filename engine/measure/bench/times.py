"""Durations of one plan by phase."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from penstock.plans.vocabulary import Layer


class Times(NamedTuple):
    """Seconds by phase; None for a phase that a planner lacks or does not report.

    `other` are checks that belong to no layer. `device`: the part of all these seconds that a planner reports
    as spent on a device such as a GPU. `start_up`: starting what this plan needs beyond the process; counts
    as start-up.
    """

    read: float | None
    layers: dict[str, float]
    hand_over: float | None
    other: float | None = None
    start_up: float = 0
    device: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Round times to microseconds, and add the sums `planning` (all but reading) and `seconds` (all)."""
        planning = sum(self.layers.values()) + (self.hand_over or 0) + (self.other or 0)
        return {
            "read": _rounded(self.read),
            "layers": {layer: round(seconds, 6) for layer, seconds in self.layers.items()},
            "hand_over": _rounded(self.hand_over),
            "other": _rounded(self.other),
            "device": _rounded(self.device),
            "planning": round(planning, 6),
            "seconds": round(planning + (self.read or 0), 6),
        }


ENOUGH_SECONDS = 10
"""Limit on warm plans in a process, except the first: differences between long plans show between
repetitions."""


def is_enough(seconds: Sequence[float]) -> bool:
    """Return whether another warm plan, as long as those before, would exceed ENOUGH_SECONDS."""
    return bool(seconds) and sum(seconds) * (1 + 1 / len(seconds)) > ENOUGH_SECONDS


class Run(Protocol):
    """A planner that was started, as benchmarks measure and compare it."""

    def plans(self, path: Path, until: Layer, warm: int) -> Iterator[Times]:
        """Yield the times of a cold plan of `path` and at most `warm` more, as they finish."""

    def lines(self, path: Path, until: Layer) -> Iterator[str]:
        """Yield plan JSON lines of `path`, to compare planners."""


class NotPlannedError(Exception):
    """A planner produced no plan where it should have; `error` is its own error class."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def by_layer(seconds: Mapping[str, float], steps: Mapping[Layer, tuple[str, ...]]) -> dict[str, float]:
    """Sum the steps of each layer; layers without a step that ran are left out."""
    return {
        str(layer): sum(seconds[name] for name in names if name in seconds)
        for layer, names in steps.items()
        if any(name in seconds for name in names)
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
