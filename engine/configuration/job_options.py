"""Options of a job: a topology's or a script's own setting wins over the configuration's."""

from penstock.engine.configuration.option import Option, Reader, flink_option
from penstock.plans.topology.flink_options import OPTIONS
from penstock.plans.topology.flink_values import parse_int

_MEANINGS = {
    "execution.runtime-mode": "whether a job is planned as a streaming or a batch job",
    "execution.batch-shuffle-mode": "how tasks of a batch job exchange data",
    "execution.buffer-timeout.interval": "how long a record may wait in a buffer",
    "execution.buffer-timeout.enabled": "whether buffers are sent before they are full",
    "execution.sorted-inputs.enabled": "whether keyed operators of a batch job get sorted inputs",
    "execution.sorted-inputs.memory": "managed memory that sorting inputs is weighed with",
    "execution.batch-state-backend.enabled": "whether batch jobs use a state backend of their own",
    "jobmanager.scheduler": "the scheduler; batch jobs under AdaptiveBatch get dynamic graphs",
    "pipeline.name": "the name of a job",
    "pipeline.max-parallelism": "number of key groups of operators that set none; -1: derived",
    "pipeline.auto-generate-uids": "whether operators may be without uid",
    "pipeline.operator-chaining.enabled": "whether operators are chained",
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": (
        "whether operators of different max parallelism are chained"
    ),
    "pipeline.vertex-description-mode": "how the description of a vertex is laid out",
    "pipeline.vertex-name-include-index-prefix": "whether names of vertices begin with their index",
    "pipeline.cached-files": "files of the distributed cache",
    "pipeline.jobvertex-parallelism-overrides": (
        "parallelism of job vertices by id, in place of the planned one; a job's entries win over the "
        "configuration's"
    ),
    "execution.batch.adaptive.auto-parallelism.enabled": (
        "whether dynamic graphs reset parallelism that nobody has set"
    ),
    "execution.checkpointing.interval": "time between checkpoints; none: no checkpoints",
    "execution.checkpointing.interval-during-backlog": "the same while a source has a backlog",
    "execution.checkpointing.mode": "exactly-once or at-least-once checkpoints",
    "execution.checkpointing.timeout": "time after which a checkpoint is discarded",
    "execution.checkpointing.min-pause": "least time between two checkpoints",
    "execution.checkpointing.max-concurrent-checkpoints": "checkpoints that may be under way at once",
    "execution.checkpointing.tolerable-failed-checkpoints": "checkpoints that may fail before the job does",
    "execution.checkpointing.externalized-checkpoint-retention": "whether checkpoints outlive the job",
    "execution.checkpointing.checkpoints-after-tasks-finish": "whether checkpoints go on after tasks finish",
    "execution.checkpointing.aligned-checkpoint-timeout": "time after which aligned checkpoints go unaligned",
    "execution.checkpointing.unaligned.recover-output-on-downstream.enabled": (
        "whether output in flight is recovered by its readers"
    ),
    "execution.state-recovery.without-channel-state.checkpoint-id": (
        "checkpoint whose data in flight is ignored"
    ),
    "state.changelog.enabled": "whether changes of state are logged",
    "execution.state-recovery.claim-mode": "who owns the files of the snapshot restored from",
    "execution.checkpointing.unaligned.enabled": "whether checkpoints are unaligned",
    "execution.checkpointing.unaligned.forced": "whether they are so whatever the job",
    "pipeline.sources.pause-until-first-checkpoint": "whether sources wait for the first checkpoint",
    "execution.state-recovery.path": "the snapshot to restore from",
    "execution.state-recovery.ignore-unclaimed-state": "whether state that no operator claims is dropped",
    "execution.state-recovery.approximate-local-recovery": "whether failed tasks restart on their own",
}


def parse_parallelism(value: str) -> int:
    """A number of subtasks. Raises ValueError."""
    parallelism = parse_int(value)
    if parallelism < 1:
        raise ValueError("is below 1")
    return parallelism


PARALLELISM = Option(
    "parallelism.default",
    parse_parallelism,
    1,
    f"an integer from 1 to {2**31 - 1}",
    "number of subtasks of operators that set none, in jobs that set none; of scripts, by default the "
    "number of cores",
    Reader.JOBS,
)

JOB_OPTIONS = (PARALLELISM, *(flink_option(option, _MEANINGS[option.key], Reader.JOBS) for option in OPTIONS))
"""`parallelism.default`, and all that planning reads of a job's own configuration."""
