"""How long one plan took, by what was done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.plans.vocabulary import Layer


class Times(NamedTuple):
    """Seconds by phase; None for a phase that a planner does not have or does not report.

    `other` are checks that belong to no layer. `device`: of all these, what a planner says it has spent on a
    device such as a GPU. `start_up` is what had to be started for this plan beyond the
    process, and counts as start-up.
    """

    read: float | None
    layers: dict[str, float]
    hand_over: float | None
    other: float | None = None
    start_up: float = 0
    device: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Times to the microsecond, with the sums `planning` (all but reading) and `seconds` (all)."""
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
"""Warm plans in a process take no longer than this, but for the first of them: what differs between long
plans is seen between repetitions."""


def is_enough(seconds: Sequence[float]) -> bool:
    """Whether one more warm plan, as long as those that took `seconds`, would pass ENOUGH_SECONDS."""
    return bool(seconds) and sum(seconds) * (1 + 1 / len(seconds)) > ENOUGH_SECONDS


Plans = Callable[[Path, Layer, int], Iterator[Times]]
"""(topologies, last layer, N) to the times of one cold plan and at most N warm ones, as they are done."""


class NotPlannedError(Exception):
    """A planner gave no plan where it should have; `error` is its own class of error."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def again_and_again(plan: Callable[[Path, Layer], Times]) -> Plans:
    """Plans by calling `plan` in this process."""

    def plans(path: Path, until: Layer, warm: int) -> Iterator[Times]:
        for _ in range(1 + warm):
            yield plan(path, until)

    return plans


def by_layer(seconds: Mapping[str, float], steps: Mapping[Layer, tuple[str, ...]]) -> dict[str, float]:
    """Layer to the sum over its steps that ran; layers of which none ran are left out."""
    return {
        str(layer): sum(seconds[name] for name in names if name in seconds)
        for layer, names in steps.items()
        if any(name in seconds for name in names)
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
