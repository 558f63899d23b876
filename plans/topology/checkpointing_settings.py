"""Reads and checks a job's checkpointing options as Flink does."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.plans.topology import flink_options as options
from penstock.plans.topology.setting_refusals import SettingRefusal, read_setting, refused_setting

_MINIMAL_CHECKPOINT_TIME = 10
_DISABLED_INTERVAL = 2**63 - 1
_BACKLOG_BELOW_INTERVAL = (
    "Checkpoint interval during backlog must be larger than or equal to that in normal situation."
)
_PAUSED_WITHOUT_CHECKPOINTS = (
    "Pausing sources until first checkpoint is incompatible with disabling checkpoints during "
    "backlog processing. Please review and choose whether you require "
    f"{options.PAUSE_SOURCES.key} or {options.CHECKPOINTING_INTERVAL_DURING_BACKLOG.key}"
)
_CONCURRENT_AND_UNALIGNED = "maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled"
_NO_MESSAGE = "null"


class Checkpointing(NamedTuple):
    """The checkpointing options that planning needs: milliseconds and flags; an interval of -1 is off."""

    interval: int = -1
    unaligned: bool = False
    backlog_interval: int = -1
    pause_sources: bool = False


def read_interval(config: Mapping[str, str], batch: bool) -> int:
    """Milliseconds; -1 where checkpointing is off, as it always is in BATCH mode. Raises SettingRefusal."""
    interval: int | None = read_setting(config, options.CHECKPOINTING_INTERVAL)
    return -1 if batch else interval or -1


def read_unaligned(config: Mapping[str, str], batch: bool) -> bool:
    """CheckpointingOptions.isUnalignedCheckpointEnabled: counts with exactly-once checkpoints only.

    Raises SettingRefusal.
    """
    if read_interval(config, batch) <= 0:
        return False
    exactly_once = read_setting(config, options.CHECKPOINTING_MODE) == "EXACTLY_ONCE"
    return exactly_once and bool(read_setting(config, options.UNALIGNED))


def read_checkpointing(config: Mapping[str, str], batch: bool, *, reads_changelog: bool) -> Checkpointing:
    """The checkpointing options, read and checked in Flink's order. Raises SettingRefusal.

    `reads_changelog`: false where the batch state backend has switched the changelog off.
    Source: StreamGraph.createJobCheckpointingSettings, CheckpointConfig, CheckpointCoordinatorConfiguration.
    """
    interval = read_interval(config, batch)
    read_setting(config, options.CHECKPOINT_RETENTION)
    backlog = _backlog_interval(config, interval)
    timeout = read_setting(config, options.CHECKPOINTING_TIMEOUT)
    read_setting(config, options.CHECKPOINTING_MIN_PAUSE)
    concurrent = read_setting(config, options.MAX_CONCURRENT_CHECKPOINTS)
    if interval > 0:
        read_setting(config, options.CHECKPOINTING_MODE)
    tolerable = read_setting(config, options.TOLERABLE_FAILED_CHECKPOINTS)
    unaligned = read_unaligned(config, batch)
    read_setting(config, options.CHECKPOINT_ID_OF_IGNORED_IN_FLIGHT_DATA)
    read_setting(config, options.ALIGNED_CHECKPOINT_TIMEOUT)
    read_setting(config, options.RECOVER_OUTPUT_ON_DOWNSTREAM)
    pause_sources = read_setting(config, options.PAUSE_SOURCES)
    if timeout < _MINIMAL_CHECKPOINT_TIME:
        allowed = f"{_MINIMAL_CHECKPOINT_TIME} ms or more"
        raise refused_setting(config, options.CHECKPOINTING_TIMEOUT, _NO_MESSAGE, allowed)
    if concurrent < 1:
        raise refused_setting(config, options.MAX_CONCURRENT_CHECKPOINTS, _NO_MESSAGE, "1 or more")
    if tolerable < 0:
        raise refused_setting(config, options.TOLERABLE_FAILED_CHECKPOINTS, _NO_MESSAGE, "0 or more")
    if unaligned and concurrent > 1:
        allowed = "1 beside unaligned checkpoints"
        raise refused_setting(config, options.MAX_CONCURRENT_CHECKPOINTS, _CONCURRENT_AND_UNALIGNED, allowed)
    if reads_changelog:
        read_setting(config, options.STATE_CHANGELOG)
    return Checkpointing(interval, unaligned, backlog, pause_sources)


def _backlog_interval(config: Mapping[str, str], interval: int) -> int:
    """CheckpointConfig.getCheckpointIntervalDuringBacklog."""
    configured = read_setting(config, options.CHECKPOINTING_INTERVAL_DURING_BACKLOG)
    backlog = _effective(interval if configured is None else configured)
    if backlog < _effective(interval):
        allowed = f"0, or at least {options.CHECKPOINTING_INTERVAL.key}"
        option = options.CHECKPOINTING_INTERVAL_DURING_BACKLOG
        raise refused_setting(config, option, _BACKLOG_BELOW_INTERVAL, allowed)
    return backlog


def _effective(milliseconds: int) -> int:
    return milliseconds if milliseconds >= _MINIMAL_CHECKPOINT_TIME else _DISABLED_INTERVAL


def pausing_refusal(config: Mapping[str, str], read: Checkpointing) -> SettingRefusal | None:
    """The last check of StreamingJobGraphGenerator.preValidate."""
    if read.interval <= 0 or read.backlog_interval != _DISABLED_INTERVAL or not read.pause_sources:
        return None
    allowed = "false where checkpoints are disabled during backlog"
    return refused_setting(config, options.PAUSE_SOURCES, _PAUSED_WITHOUT_CHECKPOINTS, allowed)
