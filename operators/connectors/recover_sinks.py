"""Finish or undo the commit of a sink from its entry in a journal, without the sink."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.operators.connectors.commit_delta import DeltaWrite, abort_delta, commit_delta
from penstock.operators.connectors.sink import Committable, Recovery, Sink
from penstock.operators.connectors.staged_files import abort_files, commit_files
from penstock.operators.connectors.state_sink import commit_state
from penstock.operators.files.filesystem import filesystem_of


def _publish_files(
    recovery: Recovery, write_id: str, committables: list[Committable], retries: int, options: Any
) -> None:
    commit_files(recovery.folder, write_id, committables)


def _undo_files(recovery: Recovery, write_id: str, options: Any) -> None:
    abort_files(recovery.folder, write_id)


def _publish_delta(
    recovery: Recovery, write_id: str, committables: list[Committable], retries: int, options: Any
) -> None:
    arguments = {**recovery.arguments, "partition_by": tuple(recovery.arguments["partition_by"])}
    write = DeltaWrite(recovery.folder, write_id, **arguments, storage_options=options)
    commit_delta(write, committables, retries=retries)


def _undo_delta(recovery: Recovery, write_id: str, options: Any) -> None:
    abort_delta(recovery.folder, write_id, options)


def _publish_state(
    recovery: Recovery, write_id: str, committables: list[Committable], retries: int, options: Any
) -> None:
    commit_state(recovery.folder, committables)


def _undo_state(recovery: Recovery, write_id: str, options: Any) -> None:
    """Do nothing: no version names the segments of the run, and the next version removes them."""


class SinkKind(NamedTuple):
    """The functions that publish and remove the writes of one kind of sink."""

    publish: Callable[[Recovery, str, list[Committable], int, Mapping[str, str] | None], None]
    undo: Callable[[Recovery, str, Mapping[str, str] | None], None]


#: In the reverse order in which they are published: state comes last, because it marks a batch as done.
KINDS = {
    "state": SinkKind(_publish_state, _undo_state),
    "files": SinkKind(_publish_files, _undo_files),
    "delta": SinkKind(_publish_delta, _undo_delta),
}


def recovery_of(sink: Sink) -> Recovery | None:
    """Return `sink.recovery()` with an absolute folder.

    None if there is none, or if a class of the user overrides `commit`.
    """
    is_bundled = getattr(type(sink).commit, "__module__", "").startswith("penstock.operators.connectors.")
    recovery = sink.recovery() if is_bundled else None
    if recovery is None or "://" in recovery.folder:
        return recovery
    return replace(recovery, folder=filesystem_of(recovery.folder)[1])


def needs_commit(sink: Sink) -> bool:
    """Whether the sink has data to commit, unlike sinks that print, collect or discard."""
    return type(sink).commit is not Sink.commit
