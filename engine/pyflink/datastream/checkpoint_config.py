"""Settings of checkpoints. Source: pyflink.datastream.checkpoint_config, CheckpointingOptions."""

from __future__ import annotations

from penstock.engine.pyflink.common.configuration import Configuration
from penstock.engine.pyflink.common.execution_config import get_duration, set_duration, set_key
from penstock.engine.pyflink.common.time import Duration
from penstock.engine.pyflink.datastream.checkpointing_mode import CheckpointingMode
from penstock.engine.pyflink.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention,
)
from penstock.operators.common.arguments import require_kind

_PREFIX = "execution.checkpointing."
_INTERVAL = _PREFIX + "interval"
_MODE = _PREFIX + "mode"
_TIMEOUT = _PREFIX + "timeout"
_MIN_PAUSE = _PREFIX + "min-pause"
_CONCURRENT = _PREFIX + "max-concurrent-checkpoints"
_TOLERABLE_FAILURES = _PREFIX + "tolerable-failed-checkpoints"
_RETENTION = _PREFIX + "externalized-checkpoint-retention"
_UNALIGNED = _PREFIX + "unaligned.enabled"
_FORCED = _PREFIX + "unaligned.forced"
_ALIGNED_TIMEOUT = _PREFIX + "aligned-checkpoint-timeout"
_LEAST_MILLISECONDS = 10
_MAX_INT = 2**31 - 1


class CheckpointConfig:
    """A view of the options of a Configuration that say how checkpoints are taken.

    Bounded jobs here take none: a failed task starts again. Plans show the settings. Times are milliseconds.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode; AT_LEAST_ONCE as long as checkpoints are not enabled, or in BATCH mode."""
        batch = self._configuration.get_string("execution.runtime-mode", "") == "BATCH"
        if batch or not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[(self._configuration.get_string(_MODE, "") or "EXACTLY_ONCE").upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode; EXACTLY_ONCE unless set."""
        self._configuration.set_string(_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Time between checkpoints; -1 unless set."""
        return get_duration(self._configuration, -1, _INTERVAL)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between checkpoints. ValueError below 10."""
        _at_least(_LEAST_MILLISECONDS, checkpoint_interval, "checkpoint_interval")
        set_duration(self._configuration, checkpoint_interval, _INTERVAL)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Time a checkpoint may take; 600,000 unless set."""
        return get_duration(self._configuration, 600_000, _TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the time a checkpoint may take. ValueError below 10."""
        _at_least(_LEAST_MILLISECONDS, checkpoint_timeout, "checkpoint_timeout")
        set_duration(self._configuration, checkpoint_timeout, _TIMEOUT)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Time between the end of a checkpoint and the next; 0 unless set."""
        return get_duration(self._configuration, 0, _MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the time between the end of a checkpoint and the next. ValueError below 0."""
        _at_least(0, min_pause_between_checkpoints, "min_pause_between_checkpoints")
        set_duration(self._configuration, min_pause_between_checkpoints, _MIN_PAUSE)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once; 1 unless set."""
        return self._configuration.get_integer(_CONCURRENT, 1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once. ValueError below 1."""
        _at_least(1, max_concurrent_checkpoints, "max_concurrent_checkpoints")
        self._configuration.set_integer(_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether no failed checkpoint is tolerated."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Tolerate no failed checkpoint, or all."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _MAX_INT)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail; 0 unless set."""
        return self._configuration.get_integer(_TOLERABLE_FAILURES, 0)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many checkpoints in a row may fail. ValueError below 0."""
        _at_least(0, tolerable_checkpoint_failure_number, "tolerable_checkpoint_failure_number")
        self._configuration.set_integer(_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what becomes of the checkpoints of a cancelled job."""
        self._configuration.set_string(_RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints outlive their job."""
        off = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not off

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of the checkpoints of a cancelled job; NO_EXTERNALIZED_CHECKPOINTS unless set."""
        name = self._configuration.get_string(_RETENTION, "") or "NO_EXTERNALIZED_CHECKPOINTS"
        return ExternalizedCheckpointRetention[name.upper()]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are unaligned: enabled, and the mode is EXACTLY_ONCE."""
        exactly_once = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        key = set_key(self._configuration, _UNALIGNED, _PREFIX + "unaligned")
        return exactly_once and key is not None and self._configuration.get_boolean(key, False)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, or not."""
        self._configuration.set_boolean(_UNALIGNED, require_kind(enabled, bool, "enabled"))
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers wait for records."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set after which time a checkpoint that began aligned becomes unaligned."""
        set_duration(self._configuration, alignment_timeout.milliseconds, _ALIGNED_TIMEOUT)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """After which time a checkpoint that began aligned becomes unaligned; 0 unless set."""
        key = _PREFIX + "alignment-timeout"
        return Duration.of_millis(get_duration(self._configuration, 0, _ALIGNED_TIMEOUT, key))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """An older name of set_aligned_checkpoint_timeout."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """An older name of get_aligned_checkpoint_timeout."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Have unaligned checkpoints whatever the job, or not."""
        self._configuration.set_boolean(_FORCED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether checkpoints are unaligned whatever the job; False unless set."""
        return self._configuration.get_boolean(_FORCED, False)


def _at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise ValueError(f"{name} {value}: it has to be at least {least}")
