"""Streams whose records are kept from the first BATCH job that reads them.

Until then a cached stream is a union of one stream, that is, nothing; afterwards it is a source. As in Flink,
STREAMING jobs fill no cache, and read those that are filled.

Source: org.apache.flink.streaming.api.transformations.CacheTransformation and its translator.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.run.runtime.transformations import Transformation, reachable
from penstock.operators.connectors.collection import CollectionSource


class KeptRecordsSource(CollectionSource):
    """The records of a cached stream, read by all subtasks."""

    def splits(self, parallelism: int) -> list[list[int]]:
        """The numbers of their parts, in turn."""
        (parts, *_) = super().splits(1)
        return [parts[subtask::parallelism] for subtask in range(parallelism)]


class CachedStreams:
    """The cached streams of one environment."""

    def __init__(self) -> None:
        self._inputs: dict[int, list[Transformation]] = {}
        self._kept: dict[int, Transformation] = {}

    def register(self, cached: Transformation) -> None:
        """A union of one stream, to be kept."""
        self._inputs[cached.created] = list(cached.inputs)

    def read_by(self, roots: Iterable[Transformation]) -> tuple[list[Transformation], list[Transformation]]:
        """The cached streams that `roots` read: those still to compute, inner ones first, and those kept."""
        read = [cached for cached in reachable(roots) if cached.created in self._inputs]
        return [cached for cached in read if cached.kind == "union"], [
            cached for cached in read if cached.kind != "union"
        ]

    def fill(self, cached: Transformation, records: list[object]) -> None:
        """Keep the records of a cached stream."""
        cached.kind, cached.inputs = "legacy_source", []
        (cached.cached_from,) = self._inputs[cached.created]
        cached.operator = KeptRecordsSource(records, cached.output_type)
        if cached.lowered is not None:
            cached.lowered.filled = True
        self._kept[cached.created] = cached

    def invalidate(self, cached: Transformation) -> None:
        """Forget its records; it is a union again."""
        cached.kind, cached.inputs = "union", list(self._inputs[cached.created])
        cached.operator = cached.cached_from = None
        if (lowered := cached.lowered) is not None:
            lowered.filled, lowered.inputs = False, [lowered.cached]
        self._kept.pop(cached.created, None)

    def detach(self) -> None:
        """A stream graph was made: what leads to a stream that is kept belongs to no later one.

        Source: StreamExecutionEnvironment.synchronizeClusterDatasetStatus, CacheTransformation.getInputs.
        """
        for cached in self._kept.values():
            if cached.lowered is not None:
                cached.lowered.inputs = []

    def clear(self) -> None:
        """Forget all records."""
        for cached in list(self._kept.values()):
            self.invalidate(cached)
