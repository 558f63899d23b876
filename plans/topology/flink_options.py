"""The Flink options that Flink reads while it plans: keys, deprecated keys, types and defaults.

Flink: ExecutionOptions, BatchExecutionOptions, PipelineOptions, CheckpointingOptions, StateRecoveryOptions,
JobManagerOptions, StateChangelogOptions. Options that are not in this table are carried with the job and not
looked at.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.plans.topology.flink_values import (
    enum_parser,
    parse_boolean,
    parse_duration,
    parse_int,
    parse_long,
    parse_max_parallelism,
    parse_memory_size,
    parse_string,
)
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.parse_cached_files import parse_cached_files


class FlinkOption(NamedTuple):
    """One option; `values` are the names of an enum, `default` is parsed."""

    key: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    deprecated: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def _enum(key: str, default: str | None, *values: str, deprecated: tuple[str, ...] = ()) -> FlinkOption:
    return FlinkOption(key, enum_parser(values), default, ", ".join(values), deprecated, values)


def _flag(key: str, default: bool, *deprecated: str) -> FlinkOption:
    return FlinkOption(key, parse_boolean, default, "true or false", deprecated)


def _duration(key: str, default: int | None, *deprecated: str) -> FlinkOption:
    return FlinkOption(key, parse_duration, default, "a duration such as 100 ms, 10 s or PT1M", deprecated)


def _number(key: str, default: int) -> FlinkOption:
    return FlinkOption(key, parse_int, default, "a 32-bit integer")


RUNTIME_MODE = _enum("execution.runtime-mode", "STREAMING", "STREAMING", "BATCH", "AUTOMATIC")
BATCH_SHUFFLE_MODE = _enum(
    "execution.batch-shuffle-mode",
    "ALL_EXCHANGES_BLOCKING",
    "ALL_EXCHANGES_PIPELINED",
    "ALL_EXCHANGES_BLOCKING",
    "ALL_EXCHANGES_HYBRID_FULL",
    "ALL_EXCHANGES_HYBRID_SELECTIVE",
)
BUFFER_TIMEOUT = _duration("execution.buffer-timeout.interval", 100, "execution.buffer-timeout")
BUFFER_TIMEOUT_ENABLED = _flag("execution.buffer-timeout.enabled", True)
SORT_INPUTS = _flag("execution.sorted-inputs.enabled", True)
SORTED_INPUTS_MEMORY = FlinkOption(
    "execution.sorted-inputs.memory", parse_memory_size, 128 * 2**20, "a memory size such as 128 mb"
)
BATCH_STATE_BACKEND = _flag("execution.batch-state-backend.enabled", True)
SCHEDULER = _enum("jobmanager.scheduler", None, "Default", "Adaptive", "AdaptiveBatch")
JOB_NAME = FlinkOption("pipeline.name", parse_string, None, "a string")
MAX_PARALLELISM_OPTION = FlinkOption(
    "pipeline.max-parallelism", parse_max_parallelism, -1, f"an integer up to {MAX_PARALLELISM}"
)
AUTO_GENERATE_UIDS = _flag("pipeline.auto-generate-uids", True)
OPERATOR_CHAINING = _flag("pipeline.operator-chaining.enabled", True, "pipeline.operator-chaining")
CHAIN_DIFFERENT_MAX_PARALLELISM = _flag(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", True
)
VERTEX_DESCRIPTION_MODE = _enum("pipeline.vertex-description-mode", "TREE", "TREE", "CASCADING")
VERTEX_NAME_INDEX_PREFIX = _flag("pipeline.vertex-name-include-index-prefix", False)
CACHED_FILES = FlinkOption(
    "pipeline.cached-files", parse_cached_files, {}, "name:file1,path:'file:///tmp/file1';name:…,path:…"
)
AUTO_PARALLELISM = _flag("execution.batch.adaptive.auto-parallelism.enabled", True)
CHECKPOINTING_INTERVAL = _duration("execution.checkpointing.interval", None)
CHECKPOINTING_INTERVAL_DURING_BACKLOG = _duration("execution.checkpointing.interval-during-backlog", None)
CHECKPOINTING_MODE = _enum("execution.checkpointing.mode", "EXACTLY_ONCE", "EXACTLY_ONCE", "AT_LEAST_ONCE")
CHECKPOINTING_TIMEOUT = _duration("execution.checkpointing.timeout", 600_000)
CHECKPOINTING_MIN_PAUSE = _duration("execution.checkpointing.min-pause", 0)
MAX_CONCURRENT_CHECKPOINTS = _number("execution.checkpointing.max-concurrent-checkpoints", 1)
TOLERABLE_FAILED_CHECKPOINTS = _number("execution.checkpointing.tolerable-failed-checkpoints", 0)
CHECKPOINT_RETENTION = _enum(
    "execution.checkpointing.externalized-checkpoint-retention",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "DELETE_ON_CANCELLATION",
    "RETAIN_ON_CANCELLATION",
    "NO_EXTERNALIZED_CHECKPOINTS",
)
CHECKPOINTS_AFTER_TASKS_FINISH = _flag(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
ALIGNED_CHECKPOINT_TIMEOUT = _duration(
    "execution.checkpointing.aligned-checkpoint-timeout", 0, "execution.checkpointing.alignment-timeout"
)
RECOVER_OUTPUT_ON_DOWNSTREAM = _flag(
    "execution.checkpointing.unaligned.recover-output-on-downstream.enabled", False
)
CHECKPOINT_ID_OF_IGNORED_IN_FLIGHT_DATA = FlinkOption(
    "execution.state-recovery.without-channel-state.checkpoint-id",
    parse_long,
    -1,
    "a 64-bit integer",
    ("execution.checkpointing.recover-without-channel-state.checkpoint-id",),
)
STATE_CHANGELOG = _flag("state.changelog.enabled", False, "state.backend.changelog.enabled")
CLAIM_MODE = _enum(
    "execution.state-recovery.claim-mode",
    "NO_CLAIM",
    "CLAIM",
    "NO_CLAIM",
    "LEGACY",
    deprecated=("execution.savepoint-restore-mode",),
)
UNALIGNED = _flag("execution.checkpointing.unaligned.enabled", False, "execution.checkpointing.unaligned")
FORCE_UNALIGNED = _flag("execution.checkpointing.unaligned.forced", False)
PAUSE_SOURCES = _flag("pipeline.sources.pause-until-first-checkpoint", False)
SAVEPOINT_PATH = FlinkOption(
    "execution.state-recovery.path", parse_string, None, "a path", ("execution.savepoint.path",)
)
IGNORE_UNCLAIMED_STATE = _flag(
    "execution.state-recovery.ignore-unclaimed-state", False, "execution.savepoint.ignore-unclaimed-state"
)
APPROXIMATE_LOCAL_RECOVERY = _flag(
    "execution.state-recovery.approximate-local-recovery",
    False,
    "execution.checkpointing.approximate-local-recovery",
)

OPTIONS: tuple[FlinkOption, ...] = tuple(v for v in globals().values() if isinstance(v, FlinkOption))
"""Every option in this table."""


def key_set(config: Mapping[str, str], option: FlinkOption) -> str | None:
    """The key under which the option is set: its own before deprecated ones; None if under none."""
    return next((key for key in (option.key, *option.deprecated) if key in config), None)


def read_option(config: Mapping[str, str], option: FlinkOption) -> Any:
    """The option's value, else its default (Configuration.get). Raises ValueError if it does not parse."""
    key = key_set(config, option)
    return option.default if key is None else option.parse(config[key])
