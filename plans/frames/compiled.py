"""Array loops that numba compiles once the input is large enough."""

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
"""Rows from which a compiled loop is faster, in a process that has imported numba."""

WORTH_COMPILING = 250_000
"""Rows a process loops over before it imports numba. The import takes 0.25 s, about the cost of plain loops
over this many rows. The first compilation of a loop on a machine takes some seconds; the result is cached
next to the source or in the user's cache.
"""

COMPILING = "compiling loops for the first time in this installation, which can take half a minute"

compiling_listeners: list[Callable[[str], None]] = []
"""The last entry is called, once per process, when loops are compiled that no earlier process has cached."""

_looped: Counter[str] = Counter()

Loop = TypeVar("Loop", bound=Callable[..., Any])
Array = npt.NDArray[np.generic]


Arrays = Array | tuple[Array, ...]
"""One array, or a NamedTuple of arrays."""


def run_loop(
    loop: Callable[..., None], rows: int, inputs: Sequence[Arrays], outputs: Sequence[Arrays]
) -> None:
    """Run `loop(*inputs, *outputs)`, which writes its results into `outputs`.

    Small inputs run as plain Python over lists; large ones run compiled over the arrays. So the loop is
    limited to operations that both support: integers and indexing, no overflow, no calls.
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
    """Convert an array to a list, and a NamedTuple of arrays to a NamedTuple of lists."""
    if isinstance(arrays, tuple):
        return type(arrays)(*(array.tolist() for array in arrays))
    return arrays.tolist()


def is_worth_compiling(rows: int) -> bool:
    """Return whether a loop over `rows` more rows should be compiled."""
    if _looped["always"]:
        return True
    if rows < WORTH_RUNNING:
        return False
    _looped["rows"] += rows
    return "numba" in sys.modules or _looped["rows"] >= WORTH_COMPILING


def compile_always() -> None:
    """Run all loops compiled from now on, however few rows they have."""
    _looped["always"] = 1


def expect_rows(rows: int) -> None:
    """Count rows that will be looped over, so that even the first of them run compiled."""
    _looped["rows"] += rows


def compiled(loop: Loop) -> Loop:
    """Return the compiled loop; other threads continue while it runs."""
    fast: Loop = _compile(loop)
    return fast


@cache
def _compile(loop: Callable[..., Any]) -> Any:
    from numba import njit

    _report_compilation()
    try:
        fast: Any = njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # no folder to cache compiled code in
        return njit(nogil=True)(loop)
    if not _is_trusted(Path(fast._cache.cache_path), Path(loop.__code__.co_filename)):
        return njit(nogil=True)(loop)
    _forget_unreadable(fast)
    return fast


def _is_trusted(folder: Path, source: Path) -> bool:
    """Return whether only this user, or writers of the source, can have written the cached code.

    Cached code is unpickled, so it must be trusted. Numba looks for a folder in NUMBA_CACHE_DIR and in the
    user's cache.
    """
    if source.parent in folder.parents:
        return True
    status = folder.stat()
    by_own_group = status.st_gid == os.getegid()  # created by numba under a umask of 002
    writable = stat.S_IWOTH if by_own_group else stat.S_IWOTH | stat.S_IWGRP
    return status.st_uid == os.geteuid() and not status.st_mode & writable


@cache
def _report_compilation() -> None:
    """Register with numba to report the first loop that it compiles in this process."""
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
    """Return whether multiprocessing started this process."""
    from multiprocessing import parent_process  # here, since hardly any process gets this far

    return parent_process() is not None


def _is_watched() -> bool:
    """Return whether a person sees standard error, at a terminal or in a notebook."""
    try:
        return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")
    except (AttributeError, ValueError):  # no standard error, or a closed one
        return False


def _forget_unreadable(fast: Any) -> None:
    """Drop cached code with an unreadable index, so that the loop is compiled again.

    Numba unpickles an index before it checks that the index belongs to this source. An index of another
    version of Penstock may name classes that no longer exist, and would end every command that needs the
    loop.
    """
    try:
        fast._cache._cache_file._load_index()
    except Exception:
        with suppress(OSError):
            fast._cache.flush()
