"""The lifetime of state. Source: pyflink.datastream.state.StateTtlConfig."""

from enum import Enum

from penstock.operators.common.time import Time
from penstock.operators.state.ttl_cleanup import CleanupStrategies as _CleanupStrategies


class StateTtlConfig:
    """When what is kept for a key expires, by the clock: a time to live after the last write, or access.

    `Disabled` never expires. What has expired is dropped when it is next read. By default that read returns
    nothing; with `ReturnExpiredIfNotCleanedUp` it still returns what it drops.
    """

    class UpdateType(Enum):
        """The accesses that prolong the life of a value."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether what has expired may be seen."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock that counts."""

        ProcessingTime = 0

    CleanupStrategies = _CleanupStrategies

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
        """A builder with Flink's defaults: prolonged by writes, expired state never returned."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        """The accesses that prolong the life of a value."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Whether what has expired may be seen."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """The time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """The clock that counts; always processing time."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether anything expires."""
        return self._update_type != StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """The clean-up of expired values; of no effect here, where the first read drops them."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic},ttl={self._ttl}>"
        )

    class Builder:
        """Puts a StateTtlConfig together; every setter returns the builder."""

        def __init__(self, ttl: Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[_CleanupStrategies.Strategies, _CleanupStrategies.CleanupStrategy] = {}

        def set_update_type(self, update_type: "StateTtlConfig.UpdateType") -> "StateTtlConfig.Builder":
            """Set what prolongs the life."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> "StateTtlConfig.Builder":
            """Only writing prolongs the life."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> "StateTtlConfig.Builder":
            """Reading prolongs the life as well."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: "StateTtlConfig.StateVisibility"
        ) -> "StateTtlConfig.Builder":
            """Set whether what has expired may be seen."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> "StateTtlConfig.Builder":
            """The read that drops what has expired still returns it."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> "StateTtlConfig.Builder":
            """Never return expired values."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: "StateTtlConfig.TtlTimeCharacteristic"
        ) -> "StateTtlConfig.Builder":
            """Set which time counts."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> "StateTtlConfig.Builder":
            """Count by the clock."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> "StateTtlConfig.Builder":
            """Leave what has expired out of full snapshots."""
            strategies = _CleanupStrategies.Strategies
            self._strategies[strategies.FULL_STATE_SCAN_SNAPSHOT] = _CleanupStrategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> "StateTtlConfig.Builder":
            """Check `cleanup_size` keys for expiry at each access, or even at each record."""
            strategies = _CleanupStrategies.Strategies
            self._strategies[strategies.INCREMENTAL_CLEANUP] = _CleanupStrategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: object = None
        ) -> "StateTtlConfig.Builder":
            """Drop what has expired when RocksDB compacts its files."""
            strategies = _CleanupStrategies.Strategies
            self._strategies[strategies.ROCKSDB_COMPACTION_FILTER] = (
                _CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> "StateTtlConfig.Builder":
            """No clean-up but what is asked for."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time) -> "StateTtlConfig.Builder":
            """Set the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> "StateTtlConfig":
            """The configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                _CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )
