"""What commands say to people in single lines: foreign text, made printable here.

Rich, which takes a tenth of a second to import, is used on terminals only.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from penstock.engine.output.people import Piece, encodable, may_be_terminal, plain
from penstock.engine.output.redaction import redact
from penstock.plans.printable import printable_lines


def say(*pieces: Piece) -> None:
    """One line on standard output."""
    _say(sys.stdout, pieces)


def say_beside_output(*pieces: Piece) -> None:
    """One line on standard error: what is said beside the output of a command or script."""
    _say(sys.stderr, pieces)


def repeat(text: str) -> None:
    """A line that somebody else has written, on standard output at once, without the secrets of settings."""
    sys.stdout.write(encodable(printable_lines(redact(text)), sys.stdout) + "\n")
    sys.stdout.flush()


def complain(message: str) -> None:
    """A message of one line or more on standard error, without the secrets of settings."""
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(encodable(printable_lines(redact(message)), sys.stderr) + "\n")


def _say(stream: TextIO, pieces: Sequence[Piece]) -> None:
    if may_be_terminal(stream):
        from penstock.engine.output.people import said_on_terminal

        if said_on_terminal(stream, pieces):
            return
    stream.write(encodable("".join(map(plain, pieces)), stream) + "\n")
