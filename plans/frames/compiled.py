"""Array loops that numba compiles once the input is large enough.

A wheel holds the loops as bitcode of LLVM, which takes a tenth of the time to become code of this machine. It
serves the Python, the numba and the kind of machine that built it; all others compile the loops.
"""

import hashlib
import os
import pickle
import platform
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
        if not _is_trusted(Path(fast._cache.cache_path), Path(loop.__code__.co_filename)):
            fast = njit(nogil=True)(loop)
        else:
            _forget_unreadable(fast)
    except RuntimeError:  # no folder to cache compiled code in
        fast = njit(nogil=True)(loop)
    _use_shipped(fast, loop)
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


# Loops in wheels


SHIPPED = Path(__file__).with_name("compiled_loops.pickle")
"""The loops in a wheel, trusted like its code: {"key": …, loop: [(signature, payload)]}, both pickled."""


def shipped_key() -> str:
    """Return what the machine that built the loops and the one that loads them must have in common."""
    import numba

    return f"{sys.implementation.cache_tag}, numba {numba.__version__}, {sys.platform} {platform.machine()}"


def pack_loops() -> bytes:
    """Return the content of SHIPPED: all loops that this process has compiled."""
    from numba.core.serialize import dumps

    shipped: dict[str, Any] = {"key": shipped_key()}
    for fast in _made:
        for signature, result in fast.overloads.items():
            _, description, environment, *others = result._reduce()
            bitcode = result.library.serialize_using_bitcode()
            others[3] = ""  # annotations of types, with the source and its path
            payload = dumps((bitcode, description, environment, *others))
            shipped.setdefault(_key_of(fast.py_func), []).append((dumps(signature), payload))
    return pickle.dumps(shipped)


_made: list[Any] = []
"""Compiled loops of this process."""


def _key_of(loop: Callable[..., Any]) -> str:
    return f"{loop.__module__} {loop.__qualname__} {hashlib.sha256(loop.__code__.co_code).hexdigest()}"


@cache
def _shipped() -> dict[str, Any]:
    try:
        shipped: dict[str, Any] = pickle.loads(SHIPPED.read_bytes())
    except OSError:  # not a wheel, or an archive of it
        return {}
    return shipped if shipped.pop("key") == shipped_key() else {}


def _use_shipped(fast: Any, loop: Callable[..., Any]) -> None:
    """Have the shipped code of a loop loaded, and cached for later processes, instead of compiling it."""
    _made.append(fast)
    shipped = _shipped().get(_key_of(loop), ())
    load = fast._cache.load_overload

    def load_or_build(signature: Any, target: Any) -> Any:
        result = load(signature, target)
        for its_signature, payload in shipped if result is None else ():
            if pickle.loads(its_signature) == signature:
                result = _built(target, payload)
                fast._cache.save_overload(signature, result)
                break
        return result

    if shipped:
        fast._cache.load_overload = load_or_build


def _built(target: Any, payload: bytes) -> Any:
    """Make machine code of a shipped payload, as numba does from its cache, but keep it for the cache."""
    from llvmlite.binding import parse_bitcode
    from numba.core.compiler import CompileResult

    target.refresh()
    codegen = target.codegen()

    def library(state: tuple[str, str, bytes]) -> Any:
        made = codegen.create_library(state[0])
        made.enable_object_caching()
        made._final_module = parse_bitcode(state[2])
        made._finalize_final_module()
        return made

    codegen.unserialize_library = library  # for this call only; numba holds its lock meanwhile
    try:
        return CompileResult._rebuild(target, *pickle.loads(payload))
    finally:
        del codegen.unserialize_library
