"""Write a text whole to one file or to standard output."""

import sys
from pathlib import Path

from penstock.engine.machine.replace_file import replace_file


def write_text(text: str, target: Path | None) -> None:
    """Write `text`, which has nothing in it that a terminal acts on, as UTF-8.

    `target`: a file as of replace_file; None is standard output. Raises ConfigurationError and MachineError.
    """
    if target is None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    sys.stdout.flush()  # the target may be /dev/stdout
    with replace_file(target) as file:
        file.write(text.encode())
