"""Derive a topology's JOB_SETTINGS row from configuration and transformations, as Flink does.

Flink: StreamGraphGenerator.configureStreamGraph, ExecutionConfig, CheckpointConfig,
SavepointRestoreSettings.fromConfiguration.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.plans.errors import STREAM_GRAPH_STAGE, ErrorKind, TopologyError
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import (
    FlinkOption,
    FlinkValueError,
    key_set,
    parse_int,
    read_option,
)
from penstock.plans.topology.rules import shorten, suggestion
from penstock.plans.vocabulary import GlobalStreamExchangeMode, JobType

# Settings that Flink refuses: Flink's message, the step at which it reads them, and Penstock's own error.


ILLEGAL_ARGUMENT = "IllegalArgumentException"
ILLEGAL_STATE = "IllegalStateException"


class SettingStep(StrEnum):
    """The step at which Flink reads a setting after it has begun to translate transformations.

    The first five belong to the StreamGraph, the last five to the JobGraph; chaining is read with the first
    edge that may be chained.
    """

    MAX_PARALLELISM = "MAX_PARALLELISM"  #: of a transformation that sets none
    BUFFER_TIMEOUT = "BUFFER_TIMEOUT"  #: of an operator that sets none, in STREAMING mode
    AUTO_GENERATE_UIDS = "AUTO_GENERATE_UIDS"  #: of any operator
    SORTED_INPUTS_MEMORY = "SORTED_INPUTS_MEMORY"  #: of a keyed operator in BATCH mode
    CACHED_FILES = "CACHED_FILES"  #: after all transformations
    OPERATOR_CHAINING = "OPERATOR_CHAINING"
    CHAIN_DIFFERENT_MAX_PARALLELISM = "CHAIN_DIFFERENT_MAX_PARALLELISM"
    APPROXIMATE_LOCAL_RECOVERY = "APPROXIMATE_LOCAL_RECOVERY"  #: in BATCH mode
    CHECKPOINTING = "CHECKPOINTING"  #: StreamGraph.createJobCheckpointingSettings
    FORCE_UNALIGNED = "FORCE_UNALIGNED"  #: StreamingJobGraphGenerator.preValidate
    PAUSE_SOURCES = "PAUSE_SOURCES"  #: the last check of preValidate
    PARALLELISM_OVERRIDES = "PARALLELISM_OVERRIDES"  #: by the Dispatcher, of the finished JobGraph


JOB_GRAPH_STEPS = (
    SettingStep.APPROXIMATE_LOCAL_RECOVERY,
    SettingStep.CHECKPOINTING,
    SettingStep.FORCE_UNALIGNED,
    SettingStep.PAUSE_SOURCES,
    SettingStep.PARALLELISM_OVERRIDES,
)
"""Steps whose settings Flink also reads for a stream graph that is already translated."""


class SettingRefusal(Exception):
    """Flink's exception class and message for an option that it refuses; `ours` is Penstock's explanation."""

    def __init__(self, error: str, flink_message: str, ours: TopologyError) -> None:
        super().__init__(flink_message)
        self.error = error
        self.flink_message = flink_message
        self.ours = ours

    def as_row(self, step: SettingStep) -> dict[str, str]:
        """Return one element of JOB_SETTINGS' `setting_refusals`."""
        return {
            "step": str(step),
            "error": self.error,
            "message": self.flink_message,
            "location": self.ours.location,
            "found": self.ours.found,
            "allowed": self.ours.allowed,
            "hint": self.ours.hint,
        }


class FlinkRefusal(Exception):
    """The stage, exception class and message with which Flink refuses a job for its settings.

    `ours`: Penstock's explanations, listed after Flink's error.
    """

    def __init__(
        self, error_stage: str, error: str, flink_message: str, ours: tuple[TopologyError, ...] = ()
    ) -> None:
        super().__init__(flink_message)
        self.error_stage = error_stage
        self.error = error
        self.flink_message = flink_message
        self.ours = ours

    @classmethod
    def from_setting(cls, error_stage: str, refusal: SettingRefusal) -> "FlinkRefusal":
        """Return the refusal for an option that Flink reads at this stage for every job."""
        return cls(error_stage, refusal.error, refusal.flink_message, (refusal.ours,))

    def as_topology_errors(self) -> list[TopologyError]:
        """Return Flink's error first, with Flink's exact message as `found`."""
        location = self.ours[0].location if self.ours else "topology"
        return [TopologyError(self.error, location, self.flink_message, "", ""), *self.ours]


def read_setting(config: Mapping[str, str], option: FlinkOption) -> Any:
    """Return the option's value or its default (Configuration.get). Raises SettingRefusal."""
    key = key_set(config, option)
    if key is None:
        return option.default
    value = config[key]
    try:
        return option.parse(value)
    except FlinkValueError as refused:
        error, message, reason = refused.error, refused.flink_message, str(refused)
    except ValueError as unparsable:
        error, message = ILLEGAL_ARGUMENT, f"Could not parse value '{value}' for key '{option.key}'."
        reason = str(unparsable)
    ours = TopologyError(
        ErrorKind.INVALID_OPTION_VALUE,
        f"config {key}",
        f"{shorten(value)}, which {reason}",
        option.allowed,
        suggestion(value, option.values),
    )
    raise SettingRefusal(error, message, ours)


def _refused_setting(
    config: Mapping[str, str], option: FlinkOption, flink_message: str, allowed: str
) -> SettingRefusal:
    """Return the refusal of an option that Flink parses, but that is out of range or conflicts
    with another.
    """
    key = key_set(config, option)
    shown_value = f"{option.default} (not set)" if key is None else shorten(config[key])
    location = f"config {key or option.key}"
    ours = TopologyError(ErrorKind.INVALID_OPTION_VALUE, location, shown_value, allowed, "")
    return SettingRefusal(ILLEGAL_ARGUMENT, flink_message, ours)


# Checkpointing options, read and validated as Flink does.


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
    """The checkpointing options that planning needs, in milliseconds and flags; an interval of
    -1 means off.
    """

    interval: int = -1
    unaligned: bool = False
    backlog_interval: int = -1
    pause_sources: bool = False


def _read_interval(config: Mapping[str, str], batch: bool) -> int:
    """Return milliseconds, or -1 if checkpointing is off, as always in BATCH mode. Raises SettingRefusal."""
    interval: int | None = read_setting(config, options.CHECKPOINTING_INTERVAL)
    return -1 if batch else interval or -1


def _read_unaligned(config: Mapping[str, str], batch: bool) -> bool:
    """CheckpointingOptions.isUnalignedCheckpointEnabled: counts with exactly-once checkpoints only.

    Raises SettingRefusal.
    """
    if _read_interval(config, batch) <= 0:
        return False
    exactly_once = read_setting(config, options.CHECKPOINTING_MODE) == "EXACTLY_ONCE"
    return exactly_once and bool(read_setting(config, options.UNALIGNED))


def _read_checkpointing(config: Mapping[str, str], batch: bool, *, reads_changelog: bool) -> Checkpointing:
    """Read and validate the checkpointing options in Flink's order. Raises SettingRefusal.

    `reads_changelog`: false if the batch state backend has switched the changelog off. Source:
    StreamGraph.createJobCheckpointingSettings, CheckpointConfig, CheckpointCoordinatorConfiguration.
    """
    interval = _read_interval(config, batch)
    read_setting(config, options.CHECKPOINT_RETENTION)
    backlog = _backlog_interval(config, interval)
    timeout = read_setting(config, options.CHECKPOINTING_TIMEOUT)
    read_setting(config, options.CHECKPOINTING_MIN_PAUSE)
    concurrent = read_setting(config, options.MAX_CONCURRENT_CHECKPOINTS)
    if interval > 0:
        read_setting(config, options.CHECKPOINTING_MODE)
    tolerable = read_setting(config, options.TOLERABLE_FAILED_CHECKPOINTS)
    unaligned = _read_unaligned(config, batch)
    read_setting(config, options.CHECKPOINT_ID_OF_IGNORED_IN_FLIGHT_DATA)
    read_setting(config, options.ALIGNED_CHECKPOINT_TIMEOUT)
    read_setting(config, options.RECOVER_OUTPUT_ON_DOWNSTREAM)
    pause_sources = read_setting(config, options.PAUSE_SOURCES)
    if timeout < _MINIMAL_CHECKPOINT_TIME:
        allowed = f"{_MINIMAL_CHECKPOINT_TIME} ms or more"
        raise _refused_setting(config, options.CHECKPOINTING_TIMEOUT, _NO_MESSAGE, allowed)
    if concurrent < 1:
        raise _refused_setting(config, options.MAX_CONCURRENT_CHECKPOINTS, _NO_MESSAGE, "1 or more")
    if tolerable < 0:
        raise _refused_setting(config, options.TOLERABLE_FAILED_CHECKPOINTS, _NO_MESSAGE, "0 or more")
    if unaligned and concurrent > 1:
        allowed = "1 with unaligned checkpoints"
        raise _refused_setting(config, options.MAX_CONCURRENT_CHECKPOINTS, _CONCURRENT_AND_UNALIGNED, allowed)
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
        raise _refused_setting(config, option, _BACKLOG_BELOW_INTERVAL, allowed)
    return backlog


def _effective(milliseconds: int) -> int:
    return milliseconds if milliseconds >= _MINIMAL_CHECKPOINT_TIME else _DISABLED_INTERVAL


def _pausing_refusal(config: Mapping[str, str], read: Checkpointing) -> SettingRefusal | None:
    """The last check of StreamingJobGraphGenerator.preValidate."""
    if read.interval <= 0 or read.backlog_interval != _DISABLED_INTERVAL or not read.pause_sources:
        return None
    allowed = "false if checkpoints are disabled during backlog"
    return _refused_setting(config, options.PAUSE_SOURCES, _PAUSED_WITHOUT_CHECKPOINTS, allowed)


# The options that Flink reads before it translates transformations, in its order.
#
# Every function raises SettingRefusal for an option that Flink refuses at that point. Flink:
# StreamGraphGenerator.configureStreamGraph, SavepointRestoreSettings.fromConfiguration.


_BATCH_EXCHANGE_MODES = {
    "ALL_EXCHANGES_PIPELINED": GlobalStreamExchangeMode.ALL_EDGES_PIPELINED,
    "ALL_EXCHANGES_BLOCKING": GlobalStreamExchangeMode.ALL_EDGES_BLOCKING,
    "ALL_EXCHANGES_HYBRID_FULL": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_FULL,
    "ALL_EXCHANGES_HYBRID_SELECTIVE": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_SELECTIVE,
}


def _before_transformations(config: Mapping[str, str], unbounded: bool) -> tuple[bool, dict[str, Any]]:
    """Return whether the job is a batch job, and the other settings that StreamGraphGenerator reads first."""
    _read_restore_settings(config)
    mode = read_setting(config, options.RUNTIME_MODE)
    if mode == JobType.BATCH and unbounded:
        raise FlinkRefusal(
            STREAM_GRAPH_STAGE,
            ILLEGAL_STATE,
            "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'. This combination "
            "is not allowed, please set the 'execution.runtime-mode' to STREAMING or AUTOMATIC",
        )
    batch = mode == JobType.BATCH or (mode == "AUTOMATIC" and not unbounded)
    graph_options = _graph_options(config)
    scheduler = read_setting(config, options.SCHEDULER)
    exchange_mode = _batch_exchange_mode(config) if batch else _streaming_exchange_mode(config)
    return batch, {
        "job_type": str(JobType.BATCH if batch else JobType.STREAMING),
        "dynamic": batch and scheduler in (None, "AdaptiveBatch"),
        "global_exchange_mode": str(exchange_mode),
        "all_vertices_in_same_slot_sharing_group": not batch,
        **graph_options,
    }


def _graph_options(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that StreamGraphGenerator.configureStreamGraph reads for every job
    before the mode.
    """
    description_mode = read_setting(config, options.VERTEX_DESCRIPTION_MODE)
    index_prefix = read_setting(config, options.VERTEX_NAME_INDEX_PREFIX)
    auto_parallelism = read_setting(config, options.AUTO_PARALLELISM)
    read_setting(config, options.CHECKPOINTS_AFTER_TASKS_FINISH)
    read_setting(config, options.SCHEDULER)
    return {
        "vertex_description_mode": description_mode,
        "vertex_name_include_index_prefix": index_prefix,
        "auto_parallelism_enabled": auto_parallelism,
    }


def _read_restore_settings(config: Mapping[str, str]) -> tuple[str | None, bool]:
    """Return the path to restore from, and whether unclaimed state is ignored."""
    path = read_setting(config, options.SAVEPOINT_PATH)
    ignores_unclaimed = read_setting(config, options.IGNORE_UNCLAIMED_STATE)
    read_setting(config, options.CLAIM_MODE)
    return path, path is not None and ignores_unclaimed


def _batch_exchange_mode(config: Mapping[str, str]) -> GlobalStreamExchangeMode:
    _read_interval(config, batch=True)
    state_backend = read_setting(config, options.BATCH_STATE_BACKEND)
    sorts = read_setting(config, options.SORT_INPUTS)
    if state_backend and not sorts:
        message = "Batch state backend requires the sorted inputs to be enabled!"
        raise FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_STATE, message)
    if state_backend:
        _read_checkpointing(config, batch=True, reads_changelog=False)
    return _BATCH_EXCHANGE_MODES[read_setting(config, options.BATCH_SHUFFLE_MODE)]


def _streaming_exchange_mode(config: Mapping[str, str]) -> GlobalStreamExchangeMode:
    if not read_setting(config, options.APPROXIMATE_LOCAL_RECOVERY):
        return GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
    if _read_unaligned(config, batch=False):
        message = "Approximate Local Recovery and Unaligned Checkpoint can not be used together yet"
        raise FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_STATE, message)
    return GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE


SETTINGS_OF_GRAPHS = (
    "job_type",
    "dynamic",
    "global_exchange_mode",
    "chaining_enabled",
    "chain_different_max_parallelism",
    "all_vertices_in_same_slot_sharing_group",
    "vertex_description_mode",
    "vertex_name_include_index_prefix",
)
"""Settings that a stream graph contains itself, under the same names as in JOB_SETTINGS."""

_VERTEX_ID = re.compile("[0-9a-f]{32}")


def may_run_as_batch(config: Mapping[str, str]) -> bool:
    """Return whether the job type depends on the boundedness of its sources."""
    try:
        return bool(config) and read_option(config, options.RUNTIME_MODE) != JobType.STREAMING
    except ValueError:
        return False


def read_job_settings(
    config: Mapping[str, str],
    *,
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
    chaining: bool,
    transformations_have_unbounded_source: bool,
) -> dict[str, Any]:
    """Return the JOB_SETTINGS values (without topology_id) of a `transformations` topology.

    The job's name is pipeline.name, else the topology's. A `legacy_source` that an operator reads is
    unbounded, a `source` is bounded. Refusals raised after Flink has begun to translate transformations are
    in `setting_refusals`. Raises FlinkRefusal if Flink refuses the settings before that.
    """
    # The author's setters write these two into Flink's configuration before Flink reads it.
    flink_config = {
        **config,
        **({} if max_parallelism is None else {options.MAX_PARALLELISM_OPTION.key: str(max_parallelism)}),
        **({} if chaining else {options.OPERATOR_CHAINING.key: "false"}),
    }
    derived = _derived(tuple(flink_config.items()), transformations_have_unbounded_source)
    return {**derived, **_given(derived, config, topology_name, parallelism, max_parallelism)}


def setting_errors(config: Mapping[str, str]) -> list[TopologyError]:
    """Return the errors of a topology's settings, for topologies whose transformations are wrong, too."""
    try:
        derived = _derived(tuple(config.items()), False)
    except FlinkRefusal as refusal:
        return list(refusal.ours)
    slots = ("location", "found", "allowed", "hint")
    return [
        TopologyError(ErrorKind.INVALID_OPTION_VALUE, *(row[slot] for slot in slots))
        for row in derived["setting_refusals"]
    ]


def refusals_of_config(config: Mapping[str, str]) -> list[str]:
    """Return Flink's job-independent objections to a configuration, one sentence per refusal."""
    try:
        derived = _derived(tuple(config.items()), False)
    except FlinkRefusal as refusal:
        return [refusal.ours[0].message if refusal.ours else refusal.flink_message]
    return [
        f"{row['location']}: found {row['found']}, allowed: {row['allowed']}"
        for row in derived["setting_refusals"]
    ]


@lru_cache(maxsize=1024)
def _derived(config_items: tuple[tuple[str, str], ...], unbounded: bool) -> dict[str, Any]:
    """Return the settings that depend on configuration and boundedness alone; fleets have few
    configurations.
    """
    config = dict(config_items)
    try:
        batch, first = _before_transformations(config, unbounded)
    except SettingRefusal as refusal:
        raise FlinkRefusal.from_setting(STREAM_GRAPH_STAGE, refusal) from refusal
    return {**_common(config, batch), **first}


def read_stream_graph_settings(
    graph: Mapping[str, Any],
    config: Mapping[str, str],
    *,
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
) -> dict[str, Any]:
    """Return the JOB_SETTINGS values (without topology_id) of a `stream_graph` topology.

    The stream graph's own settings win; `config` supplies the rest. The interval is -1 if `checkpointing` is
    false, else it comes from `config`. Raises FlinkRefusal if Flink refuses the settings.
    """
    batch = graph["job_type"] == JobType.BATCH
    try:
        _read_restore_settings(config)
        read_setting(config, options.RUNTIME_MODE)
        common = {**_graph_options(config), **_common(config, batch)}
    except SettingRefusal as refusal:
        raise FlinkRefusal.from_setting(STREAM_GRAPH_STAGE, refusal) from refusal
    job_graph_refusals = [row for row in common["setting_refusals"] if row["step"] in JOB_GRAPH_STEPS]
    settings = {
        **common,
        "setting_refusals": job_graph_refusals,
        **_given(common, config, topology_name, parallelism, max_parallelism),
        **{key: graph[key] for key in SETTINGS_OF_GRAPHS},
    }
    return settings if graph["checkpointing"] else {**settings, "checkpointing_interval_milliseconds": -1}


def check_stream_graph_checkpointing(
    graph: Mapping[str, Any], config: Mapping[str, str]
) -> list[TopologyError]:
    """Return an error if a stream graph has checkpointing without the interval, which only `config` can
    supply.
    """
    if graph["checkpointing"] is not True or _sets_interval(config):
        return []
    return [
        TopologyError(
            ErrorKind.MISSING_KEY,
            "stream_graph",
            "checkpointing true without an interval",
            f"config {options.CHECKPOINTING_INTERVAL.key}",
            f'add "config": {{"{options.CHECKPOINTING_INTERVAL.key}": "…"}}',
        )
    ]


def _sets_interval(config: Mapping[str, str]) -> bool:
    """Return whether an interval is set, even one that Flink cannot parse."""
    try:
        return bool(read_option(config, options.CHECKPOINTING_INTERVAL))
    except ValueError:
        return True


def _given(
    derived: Mapping[str, Any],
    config: Mapping[str, str],
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
) -> dict[str, Any]:
    """Return the settings of the topology itself, with the configuration's values as defaults."""
    return {
        "job_name": derived["job_name"] or topology_name,
        "parallelism": parallelism,
        "max_parallelism": max_parallelism or derived["max_parallelism"],
        "config": _with_overrides_as_json(config),
    }


def _with_overrides_as_json(config: Mapping[str, str]) -> dict[str, str]:
    """Return `config` with the parallelism overrides as JSON, which both Flink and Spark can read.

    Ids that no job vertex can have are dropped, and valid numbers are in ASCII digits.
    """
    key = options.PARALLELISM_OVERRIDES.key
    others = {name: text for name, text in config.items() if not f"{name}.".startswith(f"{key}.")}
    if len(others) == len(config):
        return others
    try:
        overrides = options.parallelism_overrides(config)
    except ValueError:  # already in setting_refusals
        return others
    texts = {vertex: _ascii(text) for vertex, text in overrides.items() if _VERTEX_ID.fullmatch(vertex)}
    return {**others, key: json.dumps(texts, sort_keys=True)} if texts else others


def _ascii(number: str) -> str:
    try:
        return str(parse_int(number))
    except ValueError:
        return number


def _common(config: Mapping[str, str], batch: bool) -> dict[str, Any]:
    """Return the settings that depend on the configuration alone, for every form of topology.

    An option that Flink refuses on reading gets its default here and a row in `setting_refusals`.
    """
    refusals: list[dict[str, str]] = []

    def read(step: SettingStep, reads: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return reads()
        except SettingRefusal as refusal:
            refusals.append(refusal.as_row(step))
            return otherwise

    def option(step: SettingStep, option: FlinkOption) -> Any:
        return read(step, lambda: read_setting(config, option), option.default)

    max_parallelism = option(SettingStep.MAX_PARALLELISM, options.MAX_PARALLELISM_OPTION)
    sorts = batch and read_setting(config, options.SORT_INPUTS)
    memory = options.SORTED_INPUTS_MEMORY
    memory_size = option(SettingStep.SORTED_INPUTS_MEMORY, memory) if sorts else memory.default
    path, allow_non_restored_state = _read_restore_settings(config)
    if batch:
        option(SettingStep.APPROXIMATE_LOCAL_RECOVERY, options.APPROXIMATE_LOCAL_RECOVERY)
    state_backend = batch and read_setting(config, options.BATCH_STATE_BACKEND)
    checkpointing = read(
        SettingStep.CHECKPOINTING,
        lambda: _read_checkpointing(config, batch, reads_changelog=not state_backend),
        Checkpointing(),
    )
    forced = checkpointing.unaligned and option(SettingStep.FORCE_UNALIGNED, options.FORCE_UNALIGNED)
    pausing = _pausing_refusal(config, checkpointing)
    if pausing is not None:
        refusals.append(pausing.as_row(SettingStep.PAUSE_SOURCES))
    option(SettingStep.PARALLELISM_OVERRIDES, options.PARALLELISM_OVERRIDES)
    return {
        "job_name": read_option(config, options.JOB_NAME),
        "max_parallelism": max_parallelism if max_parallelism > 0 else -1,
        "chaining_enabled": option(SettingStep.OPERATOR_CHAINING, options.OPERATOR_CHAINING),
        "chain_different_max_parallelism": option(
            SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM, options.CHAIN_DIFFERENT_MAX_PARALLELISM
        ),
        "auto_generate_uids": option(SettingStep.AUTO_GENERATE_UIDS, options.AUTO_GENERATE_UIDS),
        "buffer_timeout": -1
        if batch
        else read(
            SettingStep.BUFFER_TIMEOUT, lambda: _buffer_timeout(config), options.BUFFER_TIMEOUT.default
        ),
        "sort_inputs": sorts,
        "sorted_inputs_memory_mebibytes": _sorted_inputs_weight(memory_size),
        "checkpointing_interval_milliseconds": checkpointing.interval,
        "unaligned_checkpoints": checkpointing.unaligned,
        "force_unaligned_checkpoints": forced,
        "savepoint_restore_path": path,
        "allow_non_restored_state": allow_non_restored_state,
        "user_artifacts": option(SettingStep.CACHED_FILES, options.CACHED_FILES),
        "setting_refusals": refusals,
    }


def _buffer_timeout(config: Mapping[str, str]) -> int:
    """StreamGraphGenerator.getBufferTimeout: the interval is read only if timeouts are enabled."""
    if not read_setting(config, options.BUFFER_TIMEOUT_ENABLED):
        return -1
    timeout: int = read_setting(config, options.BUFFER_TIMEOUT)
    return timeout


def _sorted_inputs_weight(size: int) -> int:
    """BatchExecutionUtils.deriveMemoryWeight, MemorySize.getMebiBytes: 2 PiB overflows an int."""
    low_bits = size >> 20 & 0xFFFF_FFFF
    return max(1, low_bits if low_bits < 2**31 else low_bits - 2**32)


# Options and job settings of one topology of a table.


def settings_or_errors(
    topology: Mapping[str, Any], reads_unbounded: bool
) -> tuple[str | None, list[TopologyError], dict[str, Any] | None]:
    """Return stage and errors of a TOPOLOGIES row with valid values, or its job settings."""
    try:
        derived = read_job_settings(
            dict(topology["config"]),
            topology_name=topology["name"],
            parallelism=topology["parallelism"],
            max_parallelism=topology["max_parallelism"],
            chaining=topology["chaining"],
            transformations_have_unbounded_source=reads_unbounded,
        )
    except FlinkRefusal as refusal:
        return refusal.error_stage, refusal.as_topology_errors(), None
    return None, [], derived
