"""The options that Flink reads before it translates transformations, in its order.

Every function raises SettingRefusal for an option that Flink refuses there.
Flink: StreamGraphGenerator.configureStreamGraph, SavepointRestoreSettings.fromConfiguration.
"""

from collections.abc import Mapping
from typing import Any

from penstock.plans.error_kinds import STREAM_GRAPH_STAGE
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.checkpointing_settings import read_checkpointing, read_interval, read_unaligned
from penstock.plans.topology.setting_refusals import ILLEGAL_STATE, FlinkRefusal, read_setting
from penstock.plans.vocabulary import GlobalStreamExchangeMode, JobType

_BATCH_EXCHANGE_MODES = {
    "ALL_EXCHANGES_PIPELINED": GlobalStreamExchangeMode.ALL_EDGES_PIPELINED,
    "ALL_EXCHANGES_BLOCKING": GlobalStreamExchangeMode.ALL_EDGES_BLOCKING,
    "ALL_EXCHANGES_HYBRID_FULL": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_FULL,
    "ALL_EXCHANGES_HYBRID_SELECTIVE": GlobalStreamExchangeMode.ALL_EDGES_HYBRID_SELECTIVE,
}


def before_transformations(config: Mapping[str, str], unbounded: bool) -> tuple[bool, dict[str, Any]]:
    """Whether the job is a batch job, and what else StreamGraphGenerator reads first, in its order."""
    read_restore_settings(config)
    mode = read_setting(config, options.RUNTIME_MODE)
    if mode == JobType.BATCH and unbounded:
        raise FlinkRefusal(
            STREAM_GRAPH_STAGE,
            ILLEGAL_STATE,
            "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'. This combination "
            "is not allowed, please set the 'execution.runtime-mode' to STREAMING or AUTOMATIC",
        )
    batch = mode == JobType.BATCH or (mode == "AUTOMATIC" and not unbounded)
    of_graph = graph_options(config)
    scheduler = read_setting(config, options.SCHEDULER)
    exchange_mode = _batch_exchange_mode(config) if batch else _streaming_exchange_mode(config)
    return batch, {
        "job_type": str(JobType.BATCH if batch else JobType.STREAMING),
        "dynamic": batch and scheduler in (None, "AdaptiveBatch"),
        "global_exchange_mode": str(exchange_mode),
        "all_vertices_in_same_slot_sharing_group": not batch,
        **of_graph,
    }


def graph_options(config: Mapping[str, str]) -> dict[str, Any]:
    """The options that StreamGraphGenerator.configureStreamGraph reads for every job before the mode."""
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


def read_restore_settings(config: Mapping[str, str]) -> tuple[str | None, bool]:
    """The path to restore from, and whether unclaimed state is ignored."""
    path = read_setting(config, options.SAVEPOINT_PATH)
    ignores_unclaimed = read_setting(config, options.IGNORE_UNCLAIMED_STATE)
    read_setting(config, options.CLAIM_MODE)
    return path, path is not None and ignores_unclaimed


def _batch_exchange_mode(config: Mapping[str, str]) -> GlobalStreamExchangeMode:
    read_interval(config, batch=True)
    state_backend = read_setting(config, options.BATCH_STATE_BACKEND)
    sorts = read_setting(config, options.SORT_INPUTS)
    if state_backend and not sorts:
        message = "Batch state backend requires the sorted inputs to be enabled!"
        raise FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_STATE, message)
    if state_backend:
        read_checkpointing(config, batch=True, reads_changelog=False)
    return _BATCH_EXCHANGE_MODES[read_setting(config, options.BATCH_SHUFFLE_MODE)]


def _streaming_exchange_mode(config: Mapping[str, str]) -> GlobalStreamExchangeMode:
    if not read_setting(config, options.APPROXIMATE_LOCAL_RECOVERY):
        return GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
    if read_unaligned(config, batch=False):
        message = "Approximate Local Recovery and Unaligned Checkpoint can not be used together yet"
        raise FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_STATE, message)
    return GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE
