"""What commands say to people in single lines: foreign text, made printable here.

Rich, which takes a tenth of a second to import, is used on terminals only.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from penstock.engine.output.pieces import Piece, encodable, may_be_terminal, plain
from penstock.engine.output.redaction import redact
from penstock.plans.printable import printable_lines


def print_line(*pieces: Piece) -> None:
    """One line on standard output."""
    _print(sys.stdout, pieces)


def print_beside_output(*pieces: Piece) -> None:
    """One line on standard error: what is said beside the output of a command or script."""
    _print(sys.stderr, pieces)


def print_again(text: str) -> None:
    """A line that somebody else has written, on standard output at once, without the secrets of settings."""
    sys.stdout.write(encodable(printable_lines(redact(text)), sys.stdout) + "\n")
    sys.stdout.flush()


def print_error(message: str) -> None:
    """A message of one line or more on standard error, without the secrets of settings."""
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(encodable(printable_lines(redact(message)), sys.stderr) + "\n")


def _print(stream: TextIO, pieces: Sequence[Piece]) -> None:
    if may_be_terminal(stream):
        from penstock.engine.output.people import print_on_terminal

        if print_on_terminal(stream, pieces):
            return
    stream.write(encodable("".join(map(plain, pieces)), stream) + "\n")
