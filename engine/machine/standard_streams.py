"""Name standard output in its errors, because an OSError of a descriptor has no file name.

Output to standard error is lost if it cannot be written, because there is nowhere else to report it.
"""

import io
import os
import signal
import sys
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
