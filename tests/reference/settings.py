"""What a topology's configuration means for its plan (StreamGraphGenerator.configureStreamGraph)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.reference.refusal import FlinkRefusalError

_LONG_MAX = 2**63 - 1
_MINIMAL_CHECKPOINT_TIME = 10
_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000}
_MEBIBYTES = {"": 2**-20, "b": 2**-20, "k": 2**-10, "kb": 2**-10, "m": 1, "mb": 1, "g": 1024, "gb": 1024}
_EXCHANGES = {
    "ALL_EXCHANGES_PIPELINED": "ALL_EDGES_PIPELINED",
    "ALL_EXCHANGES_BLOCKING": "ALL_EDGES_BLOCKING",
    "ALL_EXCHANGES_HYBRID_FULL": "ALL_EDGES_HYBRID_FULL",
    "ALL_EXCHANGES_HYBRID_SELECTIVE": "ALL_EDGES_HYBRID_SELECTIVE",
}


@dataclass
class Settings:
    batch: bool = False
    dynamic: bool = False
    exchange: str = "ALL_EDGES_PIPELINED"
    chaining: bool = True
    chain_different_max_parallelism: bool = True
    one_slot_sharing_group: bool = True
    auto_parallelism: bool = True
    auto_uids: bool = True
    index_prefix: bool = False
    buffer_timeout: int = 100
    sort_inputs: bool = False
    sort_weight: int = 128
    checkpointing: bool = False
    unaligned: bool = False
    force_unaligned: bool = False
    interval: int = -1
    backlog: int | None = None
    pause_sources: bool = False
    parallelism: int = 1
    max_parallelism: int = -1
    overrides: str = ""


def _first(config: Mapping[str, str], *keys: str) -> str | None:
    return next((config[k] for k in keys if k in config), None)


def _flag(config: Mapping[str, str], default: bool, *keys: str) -> bool:
    value = _first(config, *keys)
    return default if value is None else value.upper() == "TRUE"


def _quantity(text: str, units: Mapping[str, float]) -> int:
    number, unit = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower()).groups()  # type: ignore[union-attr]
    return int(int(number) * units[unit])


def _duration(config: Mapping[str, str], *keys: str) -> int | None:
    value = _first(config, *keys)
    return None if value is None else _quantity(value, _MILLISECONDS)


def _from_configuration(config: Mapping[str, str], batch: bool) -> Settings:
    prefix = "execution.checkpointing."
    interval = -1 if batch else (_duration(config, prefix + "interval") or -1)
    exactly_once = config.get(prefix + "mode", "EXACTLY_ONCE").upper() == "EXACTLY_ONCE"
    enabled = _flag(config, True, "execution.buffer-timeout.enabled") and not batch
    timeout = _duration(config, "execution.buffer-timeout.interval", "execution.buffer-timeout")
    chain = "pipeline.operator-chaining"
    memory = _quantity(config.get("execution.sorted-inputs.memory", "128 mb"), _MEBIBYTES)
    unaligned = _flag(config, False, prefix + "unaligned.enabled", prefix + "unaligned")
    return Settings(
        batch=batch,
        dynamic=batch and config.get("jobmanager.scheduler", "AdaptiveBatch").upper() == "ADAPTIVEBATCH",
        chaining=_flag(config, True, f"{chain}.enabled", chain),
        chain_different_max_parallelism=_flag(
            config, True, f"{chain}.chain-operators-with-different-max-parallelism"
        ),
        one_slot_sharing_group=not batch,
        auto_parallelism=_flag(config, True, "execution.batch.adaptive.auto-parallelism.enabled"),
        auto_uids=_flag(config, True, "pipeline.auto-generate-uids"),
        index_prefix=_flag(config, False, "pipeline.vertex-name-include-index-prefix"),
        buffer_timeout=-1 if not enabled else 100 if timeout is None else timeout,
        sort_inputs=_flag(config, True, "execution.sorted-inputs.enabled"),
        sort_weight=max(1, memory),
        checkpointing=interval > 0,
        unaligned=interval > 0 and exactly_once and unaligned,
        force_unaligned=_flag(config, False, prefix + "unaligned.forced"),
        interval=interval,
        backlog=_duration(config, prefix + "interval-during-backlog"),
        pause_sources=_flag(config, False, "pipeline.sources.pause-until-first-checkpoint"),
        max_parallelism=int(config.get("pipeline.max-parallelism", -1)),
        overrides=config.get("pipeline.jobvertex-parallelism-overrides", ""),
    )


def settings_of_transformations(topology: Mapping[str, Any], unbounded: bool) -> Settings:
    """`unbounded`: a legacy source is reached. Raises FlinkRefusalError where Flink refuses the settings."""
    config = topology.get("config", {})
    mode = config.get("execution.runtime-mode", "STREAMING").upper()
    if mode == "BATCH" and unbounded:
        raise FlinkRefusalError(
            "stream_graph",
            "IllegalStateException",
            "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'. This combination "
            "is not allowed, please set the 'execution.runtime-mode' to STREAMING or AUTOMATIC",
        )
    settings = _from_configuration(config, mode == "BATCH" or (mode == "AUTOMATIC" and not unbounded))
    settings.parallelism = topology.get("parallelism", 1)
    settings.max_parallelism = topology.get("max_parallelism", settings.max_parallelism)
    settings.chaining = settings.chaining and topology.get("chaining", True)
    local = "execution.state-recovery.approximate-local-recovery"
    if settings.batch:
        if _flag(config, True, "execution.batch-state-backend.enabled"):
            if not settings.sort_inputs:
                message = "Batch state backend requires the sorted inputs to be enabled!"
                raise FlinkRefusalError("stream_graph", "IllegalStateException", message)
            backlog_interval(settings, "stream_graph")
        settings.exchange = _EXCHANGES[
            config.get("execution.batch-shuffle-mode", "ALL_EXCHANGES_BLOCKING").upper()
        ]
    elif _flag(config, False, local, "execution.checkpointing.approximate-local-recovery"):
        if settings.unaligned:
            message = "Approximate Local Recovery and Unaligned Checkpoint can not be used together yet"
            raise FlinkRefusalError("stream_graph", "IllegalStateException", message)
        settings.exchange = "ALL_EDGES_PIPELINED_APPROXIMATE"
    return settings


def settings_of_stream_graph(topology: Mapping[str, Any]) -> Settings:
    """What the stream graph says wins; the configuration gives the rest."""
    graph = topology["stream_graph"]
    settings = _from_configuration(topology.get("config", {}), graph["job_type"] == "BATCH")
    settings.dynamic = graph["dynamic"]
    settings.exchange = graph["global_exchange_mode"]
    settings.chaining = graph["chaining_enabled"]
    settings.chain_different_max_parallelism = graph["chain_different_max_parallelism"]
    settings.one_slot_sharing_group = graph["all_vertices_in_same_slot_sharing_group"]
    settings.index_prefix = graph["vertex_name_include_index_prefix"]
    settings.checkpointing = settings.checkpointing and graph["checkpointing"]
    return settings


def backlog_interval(settings: Settings, stage: str) -> int:
    """CheckpointConfig.getCheckpointIntervalDuringBacklog."""

    def effective(milliseconds: int) -> int:
        return milliseconds if milliseconds >= _MINIMAL_CHECKPOINT_TIME else _LONG_MAX

    backlog = effective(settings.interval if settings.backlog is None else settings.backlog)
    if backlog < effective(settings.interval):
        raise FlinkRefusalError(
            stage,
            "IllegalArgumentException",
            "Checkpoint interval during backlog must be larger than or equal to that in normal situation.",
        )
    return backlog


def check_pausing_of_sources(settings: Settings) -> None:
    """The last check of StreamingJobGraphGenerator.preValidate."""
    if settings.checkpointing and settings.pause_sources:
        if backlog_interval(settings, "job_graph") != _LONG_MAX:
            return
        raise FlinkRefusalError(
            "job_graph",
            "IllegalArgumentException",
            "Pausing sources until first checkpoint is incompatible with disabling checkpoints during "
            "backlog processing. Please review and choose whether you require "
            "pipeline.sources.pause-until-first-checkpoint or "
            "execution.checkpointing.interval-during-backlog",
        )
