"""Says once in a process what a script or configuration sets that has no effect here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.engine.output.say import complain
from penstock.engine.run.runtime.transformations import Job, Transformation

_JAVA = (
    "nothing of Java runs in jobs here: read and write with Penstock's own sources and sinks, and bring "
    "Python code with add_python_file"
)
_CHECKPOINTS = (
    "no checkpoints are taken here; `penstock run --checkpoint-dir` keeps what vertices have finished"
)
_STATE = "state is kept in memory and, where that is short, in files of the workers"
_WORKERS = "Spark's Python workers run the functions"

#: How options begin that are accepted and have no effect, to why. What only plans show is not among them.
WITHOUT_EFFECT: dict[str, str] = {
    "pipeline.jars": _JAVA,
    "pipeline.classpaths": _JAVA,
    "execution.checkpointing.dir": _CHECKPOINTS,
    "execution.checkpointing.interval": _CHECKPOINTS,
    "execution.checkpointing.savepoint-dir": _CHECKPOINTS,
    "state.checkpoints.dir": _CHECKPOINTS,
    "state.savepoints.dir": _CHECKPOINTS,
    "state.backend.type": _STATE,
    "state.backend.rocksdb.": _STATE,
    "state.changelog.enabled": _STATE,
    "python.fn-execution.": _WORKERS,
    "python.execution-mode": _WORKERS,
    "python.profile.enabled": _WORKERS,
    "pipeline.object-reuse": "records are never shared between functions that could change them",
    "metrics.latency.interval": "there are no latency markers",
}
_said: set[str] = set()


def say_without_effect(options: Mapping[str, str]) -> None:
    """A line on standard error for each reason, with its options that were not named before."""
    by_reason: dict[str, list[str]] = {}
    for key in sorted(options):
        why = next((why for start, why in WITHOUT_EFFECT.items() if key.startswith(start)), None)
        if why is not None:
            by_reason.setdefault(why, []).append(key)
    for why, keys in by_reason.items():
        say_once(keys, why)


def say_left_out(job: Job, roots: Iterable[Transformation]) -> None:
    """A warning with the sinks among `roots` that PyFlink leaves out of a job whose records are collected."""
    names = [root.name for root in roots if root.kind == "sink" and root not in job.transformations]
    if names:
        complain(
            f"warning: job {job.name!r} collects records, and as in PyFlink it leaves out the sinks "
            f"{', '.join(names)}; run them with execute, or set python.operator-chaining.enabled to false"
        )


def say_once(names: Iterable[str], why: str) -> None:
    """A warning that `names` have no effect; none if all of them were named before."""
    new = [name for name in names if name not in _said]
    if new:
        _said.update(new)
        complain(f"warning: {', '.join(new)}: no effect, because {why}")
