"""Settings of checkpoints: kept, checked and shown in plans. Jobs here run over bounded input and take none.

Source: pyflink.datastream.checkpoint_config; org.apache.flink.streaming.api.environment.CheckpointConfig;
org.apache.flink.configuration.CheckpointingOptions.
"""

from __future__ import annotations

from typing import Any

from engine.common.configuration import Configuration
from engine.common.time import Duration
from engine.datastream.checkpointing_mode import CheckpointingMode
from engine.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from plans.topology import flink_options as options
from plans.topology.flink_options import FlinkOption, read_option
from plans.topology.flink_values import parse_duration, parse_int, parse_string

#: Milliseconds (CheckpointCoordinatorConfiguration.MINIMAL_CHECKPOINT_TIME).
_MINIMAL_TIME = 10
_INT_MAX = 2**31 - 1
_DURATION = "a duration such as 100 ms, 10 s or PT1M"

MIN_PAUSE = FlinkOption("execution.checkpointing.min-pause", parse_duration, 0, _DURATION)
MAX_CONCURRENT = FlinkOption("execution.checkpointing.max-concurrent-checkpoints", parse_int, 1, "an integer")
TOLERABLE_FAILURES = FlinkOption(
    "execution.checkpointing.tolerable-failed-checkpoints", parse_int, 0, "an integer"
)
RETENTION = FlinkOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    parse_string,
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS.name,
    "a name of ExternalizedCheckpointRetention",
)
ALIGNED_TIMEOUT = FlinkOption(
    "execution.checkpointing.aligned-checkpoint-timeout", parse_duration, 0, _DURATION
)


class CheckpointConfig:
    """A view of the options of a Configuration, which setters change."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """As set, EXACTLY_ONCE by default, where checkpoints are taken; else AT_LEAST_ONCE."""
        if self._get(options.RUNTIME_MODE) == "BATCH" or not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[self._get(options.CHECKPOINTING_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the guarantee."""
        return self._set(options.CHECKPOINTING_MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1 where none is set."""
        interval = self._get(options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else int(interval)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the milliseconds between two. ValueError below 10."""
        _at_least(_MINIMAL_TIME, checkpoint_interval, "checkpoint interval")
        return self._set(options.CHECKPOINTING_INTERVAL, f"{checkpoint_interval} ms")

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds; default: 10 minutes."""
        return int(self._get(options.CHECKPOINTING_TIMEOUT))

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the milliseconds that one may take. ValueError below 10."""
        _at_least(_MINIMAL_TIME, checkpoint_timeout, "checkpoint timeout")
        return self._set(options.CHECKPOINTING_TIMEOUT, f"{checkpoint_timeout} ms")

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds; default: 0."""
        return int(self._get(MIN_PAUSE))

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the milliseconds between the end of one and the start of the next. ValueError below 0."""
        _at_least(0, min_pause_between_checkpoints, "pause between checkpoints")
        return self._set(MIN_PAUSE, f"{min_pause_between_checkpoints} ms")

    def get_max_concurrent_checkpoints(self) -> int:
        """Default: 1."""
        return int(self._get(MAX_CONCURRENT))

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many may be under way at a time. ValueError below 1."""
        _at_least(1, max_concurrent_checkpoints, "number of concurrent checkpoints")
        return self._set(MAX_CONCURRENT, str(max_concurrent_checkpoints))

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether no failure is tolerated."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Tolerate no failure, or any number."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _INT_MAX)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Default: 0."""
        return int(self._get(TOLERABLE_FAILURES))

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many may fail in a row. ValueError below 0."""
        _at_least(0, tolerable_checkpoint_failure_number, "number of tolerable failures")
        return self._set(TOLERABLE_FAILURES, str(tolerable_checkpoint_failure_number))

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what becomes of checkpoints when a job is cancelled."""
        return self._set(RETENTION, retention_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether the retention is other than NO_EXTERNALIZED_CHECKPOINTS, the default."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() != none

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of checkpoints when a job is cancelled."""
        return ExternalizedCheckpointRetention[self._get(RETENTION)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether they are switched on, and checkpoints are taken, exactly once."""
        exactly_once = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        return exactly_once and bool(self._get(options.UNALIGNED))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Switch unaligned checkpoints on or off."""
        return self._set(options.UNALIGNED, str(enabled).lower())

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Switch unaligned checkpoints off."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long an aligned checkpoint may take until it goes on unaligned; 0: unaligned at once."""
        return self._set(ALIGNED_TIMEOUT, f"{alignment_timeout.milliseconds} ms")

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Default: 0."""
        return Duration.of_millis(int(self._get(ALIGNED_TIMEOUT)))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """The old name of set_aligned_checkpoint_timeout."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The old name of get_aligned_checkpoint_timeout."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Take unaligned checkpoints also where custom partitioners forbid them."""
        return self._set(options.FORCE_UNALIGNED, str(force_unaligned_checkpoints).lower())

    def is_force_unaligned_checkpoints(self) -> bool:
        """Default: False."""
        return bool(self._get(options.FORCE_UNALIGNED))

    def _get(self, option: FlinkOption) -> Any:
        return read_option(self._configuration.to_dict(), option)

    def _set(self, option: FlinkOption, value: str) -> CheckpointConfig:
        self._configuration.set_string(option.key, value)
        return self


def _at_least(least: int, given: int, what: str) -> None:
    if given < least:
        raise ValueError(f"{what} {given}: at least {least}")
