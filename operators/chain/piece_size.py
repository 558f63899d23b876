"""Limits how many results leave an operator together: a bounded number of bytes, and without long waits.

The number and size of a function's results for one record are not known in advance. So an operator checks the
waiting results while it still takes more from the function, and emits them once there are enough.
"""

from time import monotonic
from typing import Any

from penstock.operators.common.entry_size import value_bytes

_PIECE_BYTES = 8 << 20
#: How long results wait for others, about (Flink's buffer timeout).
_PIECE_SECONDS = 0.1
_MOST_RESULTS = 1 << 16
#: Results before the first look: of an operator, and of a piece once its results are known to be small.
_FIRST, _FIRST_OF_PIECE = 1, 64
_GROWTH = 4
#: Results from one look to the next at most: this many may wait when a quick function becomes slow.
_MOST_BETWEEN_LOOKS = 1024
_SAMPLE = 8


class PieceSize:
    """Says when the results that wait in an operator are enough: to be asked once `limit` of them wait."""

    __slots__ = ("_began", "_first", "limit")

    def __init__(self) -> None:
        self.limit = self._first = _FIRST
        self._began = monotonic()

    def is_full(self, waiting: list[Any], taken: int | None = None) -> bool:
        """Whether the results that wait are to be put out; if not, `limit` is higher now.

        `taken`: of how many records they are, where that is what is counted; each has one result at most.
        """
        count = len(waiting) if taken is None else taken
        sample = waiting[:: len(waiting) // _SAMPLE + 1]
        fitting = _MOST_RESULTS
        if sample:
            fitting = max(1, _PIECE_BYTES * len(sample) // sum(map(value_bytes, sample)))
        seconds = monotonic() - self._began
        timely = int(count * _PIECE_SECONDS / max(seconds, 1e-6))
        self._first = max(1, min(_FIRST_OF_PIECE, fitting, timely))
        if count >= fitting or count >= _MOST_RESULTS or seconds >= _PIECE_SECONDS:
            self.limit = self._first
            return True
        next_look = min(count * _GROWTH, count + _MOST_BETWEEN_LOOKS)
        self.limit = max(count + 1, min(_MOST_RESULTS, fitting, timely, next_look))
        return False

    def begin(self) -> None:
        """Start with no waiting results; time counts from here."""
        self.limit = self._first
        self._began = monotonic()
