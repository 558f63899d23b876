"""Settings for the clean-up of expired state.

Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from penstock.operators.common.time import Duration


class CleanupStrategies:
    """The ways to clean up that were asked for, with Flink's defaults for those in the background."""

    class Strategies(Enum):
        """The kinds of clean-up."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """The settings of one way to clean up."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A way to clean up that has no settings."""

    class IncrementalCleanupStrategy(CleanupStrategy):
        """Some keys are checked at each access."""

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            self._cleanup_size = cleanup_size
            self._run_cleanup_for_every_record = run_cleanup_for_every_record

        def get_cleanup_size(self) -> int:
            """The number of keys checked at once."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Whether keys are checked at each record, too."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """RocksDB drops what has expired when it compacts."""

        def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Any = None) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

        def get_query_time_after_num_entries(self) -> int:
            """After how many entries the clock is read again."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Any:
            """The age (a Duration) at which a file is compacted in any case."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(
        self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether the defaults for clean-up in the background hold."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots leave out what has expired."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> Any:
        """The settings for clean-up at access; None: there is none."""
        default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        return self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> Any:
        """The settings for clean-up in RocksDB; None: there is none."""
        default = self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
        return self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)
