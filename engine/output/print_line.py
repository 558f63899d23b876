"""Print single lines for people, with foreign text made printable.

Rich, whose import takes a tenth of a second, is used on terminals only.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from penstock.engine.output.pieces import Piece, encodable, may_be_terminal, plain
from penstock.engine.output.redaction import redact
from penstock.plans.printable import printable_lines


def print_line(*pieces: Piece) -> None:
    """Print a line on standard output."""
    _print(sys.stdout, pieces)


def print_beside_output(*pieces: Piece) -> None:
    """Print a message of a command or script on standard error, apart from its output."""
    _print(sys.stderr, pieces)


def print_foreign_line(text: str) -> None:
    """Print a line of another program on standard output at once, without the secrets of settings."""
    sys.stdout.write(encodable(printable_lines(redact(text)), sys.stdout) + "\n")
    sys.stdout.flush()


def print_error(message: str) -> None:
    """Print a message of one or more lines on standard error, without the secrets of settings."""
    with suppress(OSError):  # the reader may have closed it
        sys.stderr.write(encodable(printable_lines(redact(message)), sys.stderr) + "\n")


def print_message(message: str) -> None:
    """Print a message of a running job on standard error, without control characters and secrets."""
    print_error(f"penstock: {message}")


def _print(stream: TextIO, pieces: Sequence[Piece]) -> None:
    if may_be_terminal(stream):
        from penstock.engine.output.people import print_on_terminal

        if print_on_terminal(stream, pieces):
            return
    stream.write(encodable("".join(map(plain, pieces)), stream) + "\n")
