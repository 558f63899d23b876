"""Which measurements fit into a time: sizes and repetitions follow from it."""

import time
from collections.abc import Sequence
from itertools import pairwise

from penstock.engine.measure.bench.planners import planner_named
from penstock.engine.measure.bench.run_benchmarks import Turn

FIRST_GUESS_SECONDS = 3.0
"""The time that a planner's first turn may take."""

FIRST_GUESS_SECONDS_ON_SPARK = 10.0
"""The same for a planner that starts a session first."""

GROWS = 1.6
"""A turn takes at most about this many times as long where the size is the next one: start-up weighs most."""


class TimeBudget:
    """Says whether there is time for another turn, by what earlier ones took, and how much is left.

    A class, since it learns from each turn. `after_seconds` are kept for what follows the turns: comparing
    plans, which takes about as long as the first turns of all planners once more.
    """

    def __init__(self, seconds: float | None, turns: Sequence[Turn], compares: bool) -> None:
        self._seconds, self._compares = seconds, compares
        self._began = time.monotonic()
        self._took: dict[tuple[str, str, int], float] = {}
        sizes: dict[str, set[int]] = {}
        for turn in turns:
            sizes.setdefault(turn.case.suite.name, set()).add(turn.case.size)
        self._smaller = {
            (suite, large): small for suite, of in sizes.items() for small, large in pairwise(sorted(of))
        }

    def took(self, turn: Turn, seconds: float) -> None:
        """Take note of a turn that is done."""
        key = (turn.planner, turn.case.suite.name, turn.case.size)
        self._took[key] = max(seconds, self._took.get(key, 0.0))

    def has_time_for(self, turn: Turn) -> bool:
        """Whether this turn, and what follows all turns, will probably be done in time."""
        if self._seconds is None:
            return True
        return self.spent() + self._expected(turn) + self._after() <= self._seconds

    def left(self, todo: Sequence[Turn]) -> float:
        """Seconds that the turns in `todo`, and what follows them, are expected to take."""
        needed = sum(map(self._expected, todo)) + self._after()
        return needed if self._seconds is None else min(needed, max(0.0, self._seconds - self.spent()))

    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def _expected(self, turn: Turn) -> float:
        suite, size = turn.case.suite.name, turn.case.size
        factor = 1.0
        while (turn.planner, suite, size) not in self._took:
            if (suite, size) not in self._smaller:
                others = [took for (planner, *_), took in self._took.items() if planner == turn.planner]
                return factor * (min(others) if others else _first_guess(turn.planner))
            size, factor = self._smaller[suite, size], factor * GROWS
        return factor * self._took[turn.planner, suite, size]

    def _after(self) -> float:
        if not self._compares:
            return 0.0
        slowest: dict[str, float] = {}
        for (_, suite, _), took in self._took.items():
            slowest[suite] = max(took, slowest.get(suite, 0.0))
        return sum(slowest.values()) / 2


def _first_guess(planner: str) -> float:
    return FIRST_GUESS_SECONDS_ON_SPARK if planner_named(planner).kept else FIRST_GUESS_SECONDS


def seconds_left(seconds: float) -> str:
    """A time for people, such as `about 1 min 20 s left`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest:02} s left" if minutes else f"about {rest} s left"
