"""The lifetime of state. Source: pyflink.datastream.state.StateTtlConfig."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from penstock.operators.common.time import Duration, Time

# Settings for the clean-up of expired state
#
# Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.


class CleanupStrategies:
    """The chosen ways to clean up, with Flink's defaults for those in the background."""

    class Strategies(Enum):
        """The kinds of clean-up."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """The settings of one way to clean up."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A way to clean up without settings."""

    class IncrementalCleanupStrategy(CleanupStrategy):
        """Checks some keys at each access."""

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            self._cleanup_size = cleanup_size
            self._run_cleanup_for_every_record = run_cleanup_for_every_record

        def get_cleanup_size(self) -> int:
            """Return the number of keys checked at once."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Whether keys are also checked at each record."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """RocksDB drops expired entries when it compacts."""

        def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Any = None) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

        def get_query_time_after_num_entries(self) -> int:
            """Return the number of entries after which the clock is read again."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Any:
            """Return the age (a Duration) at which a file is compacted in any case."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(
        self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether the defaults for clean-up in the background apply."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots leave out expired entries."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> Any:
        """Return the settings for clean-up at access, or None."""
        default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        return self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> Any:
        """Return the settings for clean-up in RocksDB, or None."""
        default = self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
        return self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)


_CleanupStrategies = CleanupStrategies  # hidden by an attribute of the class below


class StateTtlConfig:
    """Lets the state of a key expire, by the clock: a time to live after the last write or access.

    Expired values are dropped when they are next read. By default that read returns nothing; with
    `ReturnExpiredIfNotCleanedUp` it still returns the value that it drops. `Disabled` never expires.

    Examples:
        >>> from penstock.common import Time, Types
        >>> from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
        >>> seen = ValueStateDescriptor("seen", Types.LONG())
        >>> ttl = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
        >>> seen.enable_time_to_live(ttl)
    """

    class UpdateType(Enum):
        """The accesses that renew the time to live."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether the read that drops an expired value returns it."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock by which values expire."""

        ProcessingTime = 0

    CleanupStrategies = CleanupStrategies

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time) -> "StateTtlConfig.Builder":
        """Start building, with Flink's defaults.

        Writes renew the time to live, and expired values are never returned.

        Args:
            ttl: Time to live: a Time.

        Returns:
            StateTtlConfig.Builder: `build()` ends it.
        """
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return the accesses that renew the time to live."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return whether the read that drops an expired value returns it."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return the time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return the clock by which values expire: always processing time."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Tell whether values expire."""
        return self._update_type != StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Return the clean-up settings, which have no effect here: the next read drops an expired value."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic},ttl={self._ttl}>"
        )

    class Builder:
        """Builds a StateTtlConfig; every setter returns the builder."""

        def __init__(self, ttl: Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[CleanupStrategies.Strategies, CleanupStrategies.CleanupStrategy] = {}

        def set_update_type(self, update_type: "StateTtlConfig.UpdateType") -> "StateTtlConfig.Builder":
            """Set the accesses that renew the time to live.

            Args:
                update_type: A StateTtlConfig.UpdateType; `Disabled`: values never expire.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> "StateTtlConfig.Builder":
            """Let writes renew the time to live; the default."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> "StateTtlConfig.Builder":
            """Let reads and writes renew the time to live."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: "StateTtlConfig.StateVisibility"
        ) -> "StateTtlConfig.Builder":
            """Set whether the read that drops an expired value returns it.

            Args:
                state_visibility: A StateTtlConfig.StateVisibility.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> "StateTtlConfig.Builder":
            """Let the read that drops an expired value return it."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> "StateTtlConfig.Builder":
            """Never return expired values; the default."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: "StateTtlConfig.TtlTimeCharacteristic"
        ) -> "StateTtlConfig.Builder":
            """Set the clock by which values expire.

            Args:
                ttl_time_characteristic: `StateTtlConfig.TtlTimeCharacteristic.ProcessingTime`, the only one.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> "StateTtlConfig.Builder":
            """Let values expire by processing time, the only choice."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> "StateTtlConfig.Builder":
            """Set Flink's clean-up in full snapshots, without effect here."""
            strategies = CleanupStrategies.Strategies
            self._strategies[strategies.FULL_STATE_SCAN_SNAPSHOT] = CleanupStrategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> "StateTtlConfig.Builder":
            """Set Flink's clean-up at each access, without effect here: the next read drops an expired value.

            Args:
                cleanup_size: Keys to check at once.
                run_cleanup_for_every_record: Whether to check at each record as well.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            strategies = CleanupStrategies.Strategies
            self._strategies[strategies.INCREMENTAL_CLEANUP] = CleanupStrategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: object = None
        ) -> "StateTtlConfig.Builder":
            """Set Flink's clean-up by RocksDB, without effect here: the next read drops an expired value.

            Args:
                query_time_after_num_entries: Entries after which RocksDB reads the clock again.
                periodic_compaction_time: Age at which RocksDB compacts any file: a Duration; default 30 days.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            strategies = CleanupStrategies.Strategies
            self._strategies[strategies.ROCKSDB_COMPACTION_FILTER] = (
                CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> "StateTtlConfig.Builder":
            """Disable Flink's clean-up in the background, without effect here."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time) -> "StateTtlConfig.Builder":
            """Set the time to live.

            Args:
                ttl: A Time.

            Returns:
                StateTtlConfig.Builder: This builder.
            """
            self._ttl = ttl
            return self

        def build(self) -> "StateTtlConfig":
            """Return the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )
