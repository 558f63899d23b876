"""Random configurations of the options that planning reads."""

from random import Random

_PREFIX = "pipeline.operator-chaining"
_CHECKPOINTING = "execution.checkpointing"


def random_config(rng: Random, mode: str) -> dict[str, str]:
    """Option keys to values for one of the modes of random topologies."""
    config: dict[str, str] = {}
    if mode != "streaming":
        config |= _batch_options(rng, mode)
    if mode in ("streaming", "mixed"):
        config |= _streaming_options(rng)
    if rng.random() < 0.2:
        config[f"{_PREFIX}.chain-operators-with-different-max-parallelism"] = rng.choice(("true", "false"))
    if rng.random() < 0.1:
        config["pipeline.vertex-name-include-index-prefix"] = "true"
    if rng.random() < 0.08:
        config["pipeline.max-parallelism"] = rng.choice(("16", "200"))
    if rng.random() < 0.02:
        config["pipeline.auto-generate-uids"] = "false"
    if rng.random() < 0.03:
        config[rng.choice((_PREFIX, f"{_PREFIX}.enabled"))] = rng.choice(("false", "true"))
    return config


def _batch_options(rng: Random, mode: str) -> dict[str, str]:
    blocking = ("ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED")
    hybrid = ("ALL_EXCHANGES_HYBRID_FULL", "ALL_EXCHANGES_HYBRID_SELECTIVE")
    shuffles = {"batch": blocking, "hybrid": hybrid, "mixed": (*blocking, *hybrid)}
    runtime = ("BATCH", "AUTOMATIC", "batch") if mode != "mixed" else ("STREAMING", "BATCH", "AUTOMATIC")
    config = {
        "execution.runtime-mode": rng.choice(runtime),
        "execution.batch-shuffle-mode": rng.choice(shuffles[mode]),
    }
    scheduler = rng.choice((None, "AdaptiveBatch", "Default", "Default", "Adaptive"))
    if scheduler:
        config["jobmanager.scheduler"] = scheduler
    if rng.random() < 0.1:
        config["execution.batch.adaptive.auto-parallelism.enabled"] = "false"
    if rng.random() < 0.15:
        config["execution.sorted-inputs.enabled"] = "false"
        if rng.random() < 0.85:
            config["execution.batch-state-backend.enabled"] = "false"
    if rng.random() < 0.2:
        config["execution.sorted-inputs.memory"] = rng.choice(("64 mb", "100 kb", "1 gb", "200m"))
    return config


def _streaming_options(rng: Random) -> dict[str, str]:
    config: dict[str, str] = {}
    if rng.random() < 0.15:
        config[f"{_CHECKPOINTING}.interval"] = rng.choice(("10 s", "1 min", "5ms"))
        if rng.random() < 0.5:
            unaligned = f"{_CHECKPOINTING}.unaligned"
            config[rng.choice((unaligned, f"{unaligned}.enabled"))] = "true"
        if rng.random() < 0.3:
            config[f"{_CHECKPOINTING}.unaligned.forced"] = "true"
        if rng.random() < 0.2:
            config[f"{_CHECKPOINTING}.mode"] = rng.choice(("EXACTLY_ONCE", "AT_LEAST_ONCE"))
        if rng.random() < 0.2:
            config[f"{_CHECKPOINTING}.interval-during-backlog"] = rng.choice(("1 s", "0 s", "10 min"))
        if rng.random() < 0.2:
            config["pipeline.sources.pause-until-first-checkpoint"] = "true"
    if rng.random() < 0.05:
        config["execution.state-recovery.approximate-local-recovery"] = "true"
    if rng.random() < 0.1:
        config["execution.buffer-timeout.interval"] = rng.choice(("0 ms", "250 ms", "1 s"))
    if rng.random() < 0.05:
        config["execution.buffer-timeout.enabled"] = "false"
    return config
