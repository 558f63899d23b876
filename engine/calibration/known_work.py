"""Functions of known cost, for jobs that are measured on Penstock's own runtime."""

from collections.abc import Iterator
from functools import cache
from time import process_time_ns
from typing import Any

from penstock.engine.datastream.functions import FlatMapFunction, RuntimeContext

_LOOPS = 200_000
_TRIALS = 5

Record = tuple[int, bytes]


class Work(FlatMapFunction):
    """Loops for `nanoseconds` a record, and emits `selectivity` records of `size` bytes for it, keys kept."""

    def __init__(self, nanoseconds: float, selectivity: float, size: int) -> None:
        self._nanoseconds, self._selectivity, self._size = nanoseconds, selectivity, size
        self._owed = 0.0
        self._turns = range(0)
        self._payload = b""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Measure how long the loop takes in this process."""
        self._turns = range(round(self._nanoseconds / _nanoseconds_of_turn()))
        self._payload = bytes(self._size)

    def flat_map(self, value: Any) -> Iterator[Record]:
        """The records for a record, or for a number of the source."""
        for _ in self._turns:
            pass
        self._owed += self._selectivity
        while self._owed >= 1.0:
            self._owed -= 1.0
            yield (value if isinstance(value, int) else value[0]), self._payload


@cache
def _nanoseconds_of_turn() -> float:
    """The least of some trials, in processor time."""
    best = float("inf")
    for _ in range(_TRIALS):
        started = process_time_ns()
        for _ in range(_LOOPS):
            pass
        best = min(best, (process_time_ns() - started) / _LOOPS)
    return max(best, 1.0)
