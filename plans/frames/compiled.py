"""Loops over arrays that numba compiles, where there is enough to do for them."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

WORTH_RUNNING = 2_000
"""Rows from which on a compiled loop is faster, in a process that has imported numba."""

WORTH_COMPILING = 250_000
"""Rows a process loops over before it imports numba: the import takes 0.25 s, about what plain loops over
this many rows take. Compiling a loop takes some seconds on its first use on a machine; the result is kept
next to its source or in the user's cache."""

COMPILING = "compiling loops for the first time in this installation, which can take half a minute"

compiling_listeners: list[Callable[[str], None]] = []
"""The last one is called, once in a process, when loops are compiled that no earlier process has kept."""

_looped: Counter[str] = Counter()

Loop = TypeVar("Loop", bound=Callable[..., Any])
Array = npt.NDArray[np.generic]


Arrays = Array | tuple[Array, ...]
"""One array, or a NamedTuple of arrays."""


def run_loop(
    loop: Callable[..., None], rows: int, inputs: Sequence[Arrays], outputs: Sequence[Arrays]
) -> None:
    """`loop(*inputs, *outputs)`, which writes what it finds into `outputs`.

    Small inputs run as plain Python over lists; large ones run compiled over the arrays. So the loop is
    limited to what both understand: integers and indexing, nothing that overflows, and no calls.
    """
    if is_worth_compiling(rows):
        compiled(loop)(*inputs, *outputs)
        return
    output_lists = [_lists(arrays) for arrays in outputs]
    loop(*map(_lists, inputs), *output_lists)
    for arrays, lists in zip(outputs, output_lists, strict=True):
        is_single = not isinstance(arrays, tuple)
        for array, values in zip(
            (arrays,) if is_single else arrays, (lists,) if is_single else lists, strict=True
        ):
            array[:] = values


def _lists(arrays: Any) -> Any:
    """An array as a list, a NamedTuple of arrays as one of lists."""
    if isinstance(arrays, tuple):
        return type(arrays)(*(array.tolist() for array in arrays))
    return arrays.tolist()


def is_worth_compiling(rows: int) -> bool:
    """Whether a loop that is about to run over this many rows should be compiled."""
    if rows < WORTH_RUNNING:
        return False
    _looped["rows"] += rows
    return "numba" in sys.modules or _looped["rows"] >= WORTH_COMPILING


def expect_rows(rows: int) -> None:
    """Count rows that are about to be looped over, so that not even the first of them run as plain Python."""
    _looped["rows"] += rows


def compiled(loop: Loop) -> Loop:
    """The loop compiled; other threads go on while it runs."""
    fast: Loop = _compile(loop)
    return fast


@cache
def _compile(loop: Callable[..., Any]) -> Any:
    from numba import njit

    _report_compilation()
    try:
        fast: Any = njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # no folder in which compiled code could be cached
        return njit(nogil=True)(loop)
    if not _is_trusted(Path(fast._cache.cache_path), Path(loop.__code__.co_filename)):
        return njit(nogil=True)(loop)
    _forget_unreadable(fast)
    return fast


def _is_trusted(folder: Path, source: Path) -> bool:
    """Whether kept code, which is unpickled, was written by this user, or by who can write the source, too.

    Numba looks for a folder in NUMBA_CACHE_DIR and in the user's cache.
    """
    if source.parent in folder.parents:
        return True
    status = folder.stat()
    by_own_group = status.st_gid == os.getegid()  # of numba's making, with a umask of 002
    writable = stat.S_IWOTH if by_own_group else stat.S_IWOTH | stat.S_IWGRP
    return status.st_uid == os.geteuid() and not status.st_mode & writable


@cache
def _report_compilation() -> None:
    """Have numba tell of the first loop that it compiles in this process."""
    from numba.core import event

    class Compilation(event.Listener):
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith("penstock."):
                _print_compiling()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Compilation())  # type: ignore[no-untyped-call]


@cache
def _print_compiling() -> None:
    if compiling_listeners:
        compiling_listeners[-1](COMPILING)
    elif _is_watched() and not _is_worker():
        print(COMPILING, file=sys.stderr, flush=True)


def _is_worker() -> bool:
    """Whether another process of multiprocessing's started this one."""
    from multiprocessing import parent_process  # here, since hardly any process gets this far

    return parent_process() is not None


def _is_watched() -> bool:
    """Whether a person sees what this process writes to standard error: at a terminal, or in a notebook."""
    try:
        return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _forget_unreadable(fast: Any) -> None:
    """Forget kept code whose index cannot be read, so that the loop is compiled again.

    Numba unpickles an index before it looks whether it is of this source: that of another version of Penstock
    may name classes that have gone, and would end every command that needs the loop.
    """
    try:
        fast._cache._cache_file._load_index()
    except Exception:
        with suppress(OSError):
            fast._cache.flush()
