"""Whether this process was forked from one whose threads did the work."""

import os
from functools import cache

from penstock.plans.errors import ConfigurationError

_forked = False


@cache
def note_forks() -> None:
    """From now on, know of each child that is forked: threads of this process do not go on in it."""
    os.register_at_fork(after_in_child=_note)


def _note() -> None:
    global _forked  # noqa: PLW0603  (of this process, whatever module asks)
    _forked = True


def require_threads(work: str) -> None:
    """ConfigurationError where `work` would wait for ever for threads that a parent process had."""
    if _forked:
        raise ConfigurationError(
            f"{work}: this process was forked from one that has planned, without the threads of polars that "
            "did so",
            'start processes by "spawn" or "forkserver" (multiprocessing.get_context), or fork before the '
            "first plan",
        )
