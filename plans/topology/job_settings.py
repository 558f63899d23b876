"""One JOB_SETTINGS row of a topology, as Flink derives it from configuration and transformations.

Flink: StreamGraphGenerator.configureStreamGraph, ExecutionConfig, CheckpointConfig,
SavepointRestoreSettings.fromConfiguration.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plans.errors import TopologyError
from plans.topology import flink_options as options
from plans.topology.error_kinds import ErrorKind
from plans.topology.flink_options import read_option
from plans.vocabulary import GlobalStreamExchangeMode, JobType

_MINIMAL_CHECKPOINT_TIME = 10
_DISABLED_INTERVAL = 2**63 - 1

_BATCH_EXCHANGE_MODES = {
    "ALL_EXCHANGES_PIPELINED": GlobalStreamExchangeMode.ALL_EDGES_PIPELINED,
    "ALL_EXCHANGES_BLOCKING": GlobalStreamExchangeMode.ALL_EDGES_BLOCKING,
    "ALL_EXCHANGES_HYBRID_FULL": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_FULL,
    "ALL_EXCHANGES_HYBRID_SELECTIVE": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_SELECTIVE,
}


class FlinkRefusal(Exception):
    """Flink refuses the job for its settings: the stage, its exception class and its message."""

    def __init__(self, error_stage: str, error: str, flink_message: str) -> None:
        super().__init__(flink_message)
        self.error_stage = error_stage
        self.error = error
        self.flink_message = flink_message

    def as_topology_error(self) -> TopologyError:
        """`found` is Flink's message, word for word."""
        return TopologyError(self.error, "topology", self.flink_message, "", "")


def may_run_as_batch(config: Mapping[str, str]) -> bool:
    """Whether the job type depends on the boundedness of its sources."""
    return bool(config) and read_option(config, options.RUNTIME_MODE) != JobType.STREAMING


def read_job_settings(
    config: Mapping[str, str],
    *,
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
    chaining: bool,
    transformations_have_unbounded_source: bool,
) -> dict[str, Any]:
    """The JOB_SETTINGS values (without topology_id) of a `transformations` topology.

    `config` has passed `check_options`. The job's name is pipeline.name, else the topology's. A
    `legacy_source` that an operator reads is unbounded, a `source` is bounded.
    Raises FlinkRefusal where Flink refuses the settings.
    """
    derived = _derived(tuple(config.items()), transformations_have_unbounded_source)
    return {
        **derived,
        **_given(derived, config, topology_name, parallelism, max_parallelism),
        "chaining_enabled": chaining and derived["chaining_enabled"],
    }


@lru_cache(maxsize=1024)
def _derived(config_items: tuple[tuple[str, str], ...], unbounded: bool) -> dict[str, Any]:
    """What follows from configuration and boundedness alone; a fleet has few different configurations."""
    config = dict(config_items)
    mode = read_option(config, options.RUNTIME_MODE)
    if mode == JobType.BATCH and unbounded:
        raise FlinkRefusal(
            "stream_graph",
            "IllegalStateException",
            "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'. This combination "
            "is not allowed, please set the 'execution.runtime-mode' to STREAMING or AUTOMATIC",
        )
    batch = mode == JobType.BATCH or (mode == "AUTOMATIC" and not unbounded)
    if batch:
        exchange_mode = _BATCH_EXCHANGE_MODES[read_option(config, options.BATCH_SHUFFLE_MODE)]
        if read_option(config, options.BATCH_STATE_BACKEND) and not read_option(config, options.SORT_INPUTS):
            raise FlinkRefusal(
                "stream_graph",
                "IllegalStateException",
                "Batch state backend requires the sorted inputs to be enabled!",
            )
    elif read_option(config, options.APPROXIMATE_LOCAL_RECOVERY):
        exchange_mode = GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE
        if _unaligned(config, batch):
            raise FlinkRefusal(
                "stream_graph",
                "IllegalStateException",
                "Approximate Local Recovery and Unaligned Checkpoint can not be used together yet",
            )
    else:
        exchange_mode = GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
    refusal = _checkpointing_refusal(config, batch)
    if refusal is not None and batch and read_option(config, options.BATCH_STATE_BACKEND):
        raise FlinkRefusal("stream_graph", "IllegalArgumentException", refusal)
    scheduler = read_option(config, options.SCHEDULER)
    return {
        **_common(config, batch),
        "job_type": str(JobType.BATCH if batch else JobType.STREAMING),
        "dynamic": batch and scheduler in (None, "AdaptiveBatch"),
        "global_exchange_mode": str(exchange_mode),
        "chaining_enabled": read_option(config, options.OPERATOR_CHAINING),
        "chain_different_max_parallelism": read_option(config, options.CHAIN_DIFFERENT_MAX_PARALLELISM),
        "all_vertices_in_same_slot_sharing_group": not batch,
        "vertex_description_mode": read_option(config, options.VERTEX_DESCRIPTION_MODE),
        "vertex_name_include_index_prefix": read_option(config, options.VERTEX_NAME_INDEX_PREFIX),
        "checkpointing_interval_milliseconds": _interval(config, batch),
    }


def read_stream_graph_settings(
    graph: Mapping[str, Any],
    config: Mapping[str, str],
    *,
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
) -> dict[str, Any]:
    """The JOB_SETTINGS values (without topology_id) of a `stream_graph` topology.

    What the stream graph says wins; `config` gives the rest. Where `checkpointing` is false the interval is
    -1, else it is that of `config`. Raises FlinkRefusal where Flink refuses the settings.
    """
    batch = graph["job_type"] == JobType.BATCH
    copied = (
        "job_type",
        "dynamic",
        "global_exchange_mode",
        "chaining_enabled",
        "chain_different_max_parallelism",
        "all_vertices_in_same_slot_sharing_group",
        "vertex_description_mode",
        "vertex_name_include_index_prefix",
    )
    interval = _interval(config, batch) if graph["checkpointing"] else -1
    common = _common(config, batch)
    return {
        **common,
        **_given(common, config, topology_name, parallelism, max_parallelism),
        **{key: graph[key] for key in copied},
        "checkpointing_interval_milliseconds": interval,
    }


def check_stream_graph_checkpointing(
    graph: Mapping[str, Any], config: Mapping[str, str]
) -> list[TopologyError]:
    """A stream graph with checkpointing needs the interval, which only `config` can give."""
    if graph["checkpointing"] is not True or read_option(config, options.CHECKPOINTING_INTERVAL):
        return []
    return [
        TopologyError(
            ErrorKind.MISSING_KEY,
            "stream_graph",
            "checkpointing true without an interval",
            f"config {options.CHECKPOINTING_INTERVAL.key} beside it",
            f'add "config": {{"{options.CHECKPOINTING_INTERVAL.key}": "…"}}',
        )
    ]


def _given(
    derived: Mapping[str, Any],
    config: Mapping[str, str],
    topology_name: str,
    parallelism: int,
    max_parallelism: int | None,
) -> dict[str, Any]:
    """What the topology itself says, with the configuration's value where it says nothing."""
    return {
        "job_name": derived["job_name"] or topology_name,
        "parallelism": parallelism,
        "max_parallelism": max_parallelism or derived["max_parallelism"],
        "config": dict(config),
    }


def _common(config: Mapping[str, str], batch: bool) -> dict[str, Any]:
    """What only the configuration says, whichever way the topology came in."""
    timeout = read_option(config, options.BUFFER_TIMEOUT)
    path = read_option(config, options.SAVEPOINT_PATH)
    max_parallelism = read_option(config, options.MAX_PARALLELISM_OPTION)
    return {
        "job_name": read_option(config, options.JOB_NAME),
        "max_parallelism": max_parallelism if max_parallelism > 0 else -1,
        "auto_parallelism_enabled": read_option(config, options.AUTO_PARALLELISM),
        "auto_generate_uids": read_option(config, options.AUTO_GENERATE_UIDS),
        "buffer_timeout": -1 if batch or not read_option(config, options.BUFFER_TIMEOUT_ENABLED) else timeout,
        "sort_inputs": batch and read_option(config, options.SORT_INPUTS),
        "sorted_inputs_memory_mebibytes": _sorted_inputs_weight(config),
        "unaligned_checkpoints": _unaligned(config, batch),
        "checkpointing_refusal": _checkpointing_refusal(config, batch),
        "force_unaligned_checkpoints": read_option(config, options.FORCE_UNALIGNED),
        "savepoint_restore_path": path,
        "allow_non_restored_state": path is not None and read_option(config, options.IGNORE_UNCLAIMED_STATE),
        "user_artifacts": read_option(config, options.CACHED_FILES),
    }


def _sorted_inputs_weight(config: Mapping[str, str]) -> int:
    """BatchExecutionUtils.deriveMemoryWeight, MemorySize.getMebiBytes: an int has no room for 2 PiB."""
    size: int = read_option(config, options.SORTED_INPUTS_MEMORY)
    low_bits = size >> 20 & 0xFFFF_FFFF
    return max(1, low_bits if low_bits < 2**31 else low_bits - 2**32)


def _interval(config: Mapping[str, str], batch: bool) -> int:
    """Milliseconds; -1 where checkpointing is off, as it always is in BATCH mode."""
    return -1 if batch else read_option(config, options.CHECKPOINTING_INTERVAL) or -1


def _unaligned(config: Mapping[str, str], batch: bool) -> bool:
    """CheckpointingOptions.isUnalignedCheckpointEnabled: counts with exactly-once checkpoints only."""
    exactly_once = (
        _interval(config, batch) > 0 and read_option(config, options.CHECKPOINTING_MODE) == "EXACTLY_ONCE"
    )
    return exactly_once and bool(read_option(config, options.UNALIGNED))


def _checkpointing_refusal(config: Mapping[str, str], batch: bool) -> str | None:
    """The message of CheckpointConfig.getCheckpointIntervalDuringBacklog, else of preValidate; or null.

    Flink raises it while it makes the JobGraph, behind other refusals; with the batch state backend before
    it translates anything.
    """
    interval = _interval(config, batch)
    given = read_option(config, options.CHECKPOINTING_INTERVAL_DURING_BACKLOG)
    backlog = interval if given is None else given
    effective = interval if interval >= _MINIMAL_CHECKPOINT_TIME else _DISABLED_INTERVAL
    backlog = backlog if backlog >= _MINIMAL_CHECKPOINT_TIME else _DISABLED_INTERVAL
    if backlog < effective:
        return "Checkpoint interval during backlog must be larger than or equal to that in normal situation."
    if interval > 0 and backlog == _DISABLED_INTERVAL and read_option(config, options.PAUSE_SOURCES):
        return (
            "Pausing sources until first checkpoint is incompatible with disabling checkpoints during "
            "backlog processing. Please review and choose whether you require "
            f"{options.PAUSE_SOURCES.key} or {options.CHECKPOINTING_INTERVAL_DURING_BACKLOG.key}"
        )
    return None
