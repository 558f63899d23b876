"""End a `penstock` process in the same orderly way on SIGINT, SIGTERM and SIGHUP, each with its exit code.

This module imports little, because it is imported before everything else: until then Python itself handles
signals.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any, NoReturn

from penstock.engine.machine.operating_system import orphans, process, processes

# End processes and their descendants.


GRACE_SECONDS = 10.0
"""Time for a JVM to stop Python workers and to remove its files."""

_POLL_SECONDS = 0.02


def process_tree(root: int) -> set[int]:
    """Return the ids of `root` and all its descendants."""
    parents = {pid: shown.parent for pid, shown in processes().items()}
    tree = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        grown = bool(more)
        tree |= more
    return tree


def processes_of_session(session: int) -> set[int]:
    """Return the ids of all processes in a session, even if their parents have ended."""
    return {pid for pid, shown in processes().items() if shown.session == session}


def end_processes(pids: Iterable[int], grace_seconds: float = GRACE_SECONDS) -> None:
    """Send SIGTERM to each and wait for their end; send SIGKILL to those left after `grace_seconds`."""
    running = _signal(set(pids), signal.SIGTERM)
    end = time.monotonic() + grace_seconds
    while running and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        running = {pid for pid in running if is_running(pid)}
    _signal(running, signal.SIGKILL)


def end_children() -> None:
    """End all descendants of this process, orphans as well after `adopt_orphans`."""
    end_processes((process_tree(os.getpid()) | orphans()) - {os.getpid()})


def is_running(pid: int) -> bool:
    """Return whether such a process exists and has not ended (is not a zombie)."""
    shown = process(pid)
    return shown is not None and not shown.has_ended


def _signal(pids: set[int], number: int) -> set[int]:
    """Send a signal to the running processes among `pids`, and return them."""
    running = {pid for pid in pids if is_running(pid)}
    for pid in running:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return running


_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}

_EXIT_CODE_OF_SIGNAL = 128


class _Stop:
    """Whether this process handles signals, and the first signal that it received."""

    handling = False
    number: int | None = None
    on_interrupt: Callable[[int, FrameType | None], Any] | None = None  #: PySpark's handler of SIGINT


def end_at_once_on_signals() -> None:
    """From now on, end this process on a signal with one line and no traceback.

    For the time before and after a command, when there is nothing to undo. Signals that were ignored when the
    process started (nohup) stay ignored.
    """
    if not _Stop.handling and "polars" not in sys.modules:
        sys.meta_path.insert(0, _PolarsFinder())
    _Stop.handling = True
    _handle_with(_end_at_once)
    sys.unraisablehook = _unraisable


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Inside the block, raise KeyboardInterrupt on a signal, so that started work is undone on the way out.

    Later signals are ignored, except a second Ctrl-C, which ends the process at once. Without an earlier
    `end_at_once_on_signals`, nothing changes: then the process is not a command of Penstock.
    """
    if not _Stop.handling:
        yield
        return
    try:
        _handle_with(_unwind)
        yield
    finally:
        _handle_with(_end_at_once)


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """If a library installs a handler of SIGINT inside the block, keep ours, which calls the library's first.

    PySpark installs one for each SparkContext; it cancels all jobs and raises KeyboardInterrupt. A process
    that ignores SIGINT still ignores it.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    handler = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if _Stop.handling and in_main_thread and handler is not before:
        _Stop.on_interrupt = handler if callable(handler) else None
        signal.signal(signal.SIGINT, before)


@contextmanager
def noting_handler_errors() -> Iterator[list[BaseException]]:
    """Collect exceptions that handlers of signals raise inside the block, which a library may wrap or ignore.

    Handlers of this module, which end the process, are left out. Outside the main thread, where handlers run,
    the list stays empty.
    """
    raised: list[BaseException] = []
    wrapped: dict[int, tuple[Any, Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler) and getattr(handler, "__module__", None) != __name__:
                wrapped[int(number)] = handler, _noting(handler, raised)
    try:
        for wanted, (_, noting) in wrapped.items():
            signal.signal(wanted, noting)
        yield raised
    finally:
        for wanted, (handler, noting) in wrapped.items():
            if signal.getsignal(wanted) is noting:
                signal.signal(wanted, handler)


def _noting(handler: Callable[..., Any], raised: list[BaseException]) -> Callable[[int, Any], None]:
    def noting(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    return noting


def handles_signals() -> bool:
    """Return whether this process is a command of Penstock, not a program that calls the library."""
    return _Stop.handling


def stopped_by() -> int | None:
    """Return the signal for which this process is ending, if any."""
    return _Stop.number


def stop_message(number: int) -> str:
    """Return the sentence that reports a signal."""
    return _WORDS[signal.Signals(number)]


def stop_exit_code(number: int) -> int:
    """Return the exit code of a process ended by a signal, as in shells: 130 for SIGINT, 143 for SIGTERM."""
    return _EXIT_CODE_OF_SIGNAL + number


def note_interrupt() -> None:
    """Record SIGINT for a KeyboardInterrupt that PySpark's handler raised, instead of ours."""
    if _Stop.handling and _Stop.number is None:
        _Stop.number = signal.SIGINT


def _handle_with(handler: Any) -> None:
    for number in _WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _unwind(number: int, frame: FrameType | None) -> None:
    if _Stop.number is not None:
        if number == signal.SIGINT:
            _end_at_once(number, frame)
        return
    _Stop.number = number
    if _Stop.on_interrupt is not None:
        _Stop.on_interrupt(signal.SIGINT, frame)
    raise KeyboardInterrupt


def _end_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    handling, _Stop.number = _Stop.number, number
    for every in _WORDS:
        signal.signal(every, signal.SIG_IGN)
    if handling is None:
        with suppress(OSError):
            os.write(2, f"penstock: {stop_message(number)}\n".encode())
    end_children()
    os._exit(stop_exit_code(handling or number))


class _PolarsFinder:
    """Makes waiting calls end on Ctrl-C again after polars is imported.

    The SIGINT handler of polars calls the previous one, but is installed so that the system restarts such a
    call: a main thread that waits for another one would never handle the signal.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return polars' own spec, with a loader that restores interrupted calls after loading."""
        if name != "polars":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_restore(module: ModuleType) -> None:
                load(module)
                signal.siginterrupt(signal.SIGINT, True)

            setattr(spec.loader, "exec_module", load_and_restore)  # noqa: B010
        return spec


def _unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """End the process on a KeyboardInterrupt from a finaliser, which Python would only print."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        number = _Stop.number
        _Stop.number = None
        _end_at_once(number or signal.SIGINT)
    sys.__unraisablehook__(unraisable)
