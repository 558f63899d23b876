"""Tuples of some of the fields of tuples.

Source: org.apache.flink.streaming.api.operators.StreamProject.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


class Projection:
    """The fields `indexes` of a tuple, in that order, as a function."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = tuple(indexes)
        self._get: Callable[[Any], Any] = itemgetter(*self.indexes)

    def __call__(self, record: Sequence[Any]) -> tuple[Any, ...]:
        fields = self._get(record)
        # for a single index itemgetter returns the item itself
        return fields if len(self.indexes) > 1 else (fields,)
