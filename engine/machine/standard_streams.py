"""Name standard output in its errors, because an OSError of a descriptor has no file name.

Output to standard error is lost if it cannot be written, because there is nowhere else to report it.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

# Replace standard files that a process was started without (`penstock … >&-`).


def open_missing_standard_files() -> None:
    """Open /dev/null in place of closed standard input, output or error.

    Otherwise the next file that is opened would get its number, and messages would be written into that file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


NOBODY_READS = 128 + signal.SIGPIPE
"""The exit code of a program that wrote to a pipe without readers, as in `penstock show STORE | head`."""

_NAME = "writing standard output"


def name_standard_output() -> None:
    """Replace sys.stdout and sys.stderr by streams to the same files with such errors.

    Streams of a caller that are not files stay.
    """
    sys.stdout, sys.stderr = _with(_NamedOutput, sys.stdout), _with(_SilentOutput, sys.stderr)


def is_of_standard_output(error: BaseException | None) -> bool:
    """Return whether an error means that standard output could not be written."""
    return isinstance(error, OSError) and error.filename == _NAME


def nobody_reads(error: BaseException | None) -> bool:
    """Return whether the reader of standard output has gone."""
    return isinstance(error, BrokenPipeError) and is_of_standard_output(error)


# Output of a script that runs only to be looked at: standard output has the picture or text of its job.


_redirecting = threading.Lock()
_was_redirected = threading.Event()
_blocks: list[ExitStack] = []
"""Blocks of output_to_standard_error; the first one restores standard output when the last one ends."""


@contextmanager
def output_to_standard_error() -> Iterator[None]:
    """Write to standard error inside the block whatever is for standard output, by child processes too.

    Blocks may overlap in several threads.
    """
    _was_redirected.set()
    with _redirecting:
        _blocks.append(ExitStack() if _blocks else _redirected())
    try:
        yield
    finally:
        with _redirecting:
            if len(_blocks) == 1:
                _blocks[0].close()
            _blocks.pop()


def end_on_standard_error() -> None:
    """Write to standard error what a script that was looked at still prints: its threads, and at exit.

    For the end of a command, when standard output has the whole answer. Nothing changes without a script.
    """
    if _was_redirected.is_set():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            os.dup2(2, 1)


def _redirected() -> ExitStack:
    stack = ExitStack()
    with suppress(OSError, ValueError):  # a caller's stream without a file, or closed files
        sys.stdout.flush()
        before = os.dup(1)
        stack.callback(os.close, before)
        stack.callback(os.dup2, before, 1)
        os.dup2(2, 1)
    stack.enter_context(redirect_stdout(sys.stderr))
    return stack


def _with(kind: type[io.FileIO], stream: TextIO) -> TextIO:
    stream.flush()
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return stream
    raw = kind(descriptor, "wb", closefd=False)
    unbuffered = getattr(stream, "write_through", False)  # PYTHONUNBUFFERED
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
        write_through=unbuffered,
    )


class _NamedOutput(io.FileIO):
    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, _NAME) from None


class _SilentOutput(io.FileIO):
    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes
