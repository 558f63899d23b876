"""Streams whose records are kept from the first BATCH job that reads them.

Until then a cached stream is a union of one stream, that is, nothing; afterwards it is a collection. As in
Flink, STREAMING jobs fill no cache.

Source: org.apache.flink.streaming.api.transformations.CacheTransformation and its translator.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.runtime.transformations import Transformation, reachable
from penstock.operators.connectors.collection import CollectionSource


class CachedStreams:
    """The cached streams of one environment."""

    def __init__(self) -> None:
        self._inputs: dict[int, list[Transformation]] = {}
        self._kept: dict[int, Transformation] = {}

    def register(self, cached: Transformation) -> None:
        """A union of one stream, to be kept."""
        self._inputs[cached.created] = list(cached.inputs)

    def unfilled(self, roots: Iterable[Transformation]) -> list[Transformation]:
        """Those that `roots` read and that have to be computed, inner ones first."""
        return [one for one in reachable(roots) if one.created in self._inputs and one.kind == "union"]

    def fill(self, cached: Transformation, records: list[object]) -> None:
        """Keep the records of a cached stream."""
        cached.kind, cached.inputs = "legacy_source", []
        cached.operator = CollectionSource(records, cached.output_type)
        cached.parallelism = cached.max_parallelism = 1
        self._kept[cached.created] = cached

    def invalidate(self, cached: Transformation) -> None:
        """Forget its records; it is a union again."""
        cached.kind, cached.inputs = "union", list(self._inputs[cached.created])
        cached.operator = cached.parallelism = cached.max_parallelism = None
        self._kept.pop(cached.created, None)

    def clear(self) -> None:
        """Forget all records."""
        for cached in list(self._kept.values()):
            self.invalidate(cached)
