"""What a function writes when its stream is a terminal."""

import os
import sys
import termios
import threading
from collections.abc import Callable

import pytest


def on_terminal(action: Callable[[], None], patch: pytest.MonkeyPatch, stream: str = "stdout") -> str:
    ours, theirs = os.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # else line feeds become \r\n
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    read: list[bytes] = []

    def follow() -> None:
        try:
            while chunk := os.read(ours, 65536):
                read.append(chunk)
        except OSError:  # the other end is closed
            return

    reader = threading.Thread(target=follow)
    reader.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        patch.setattr(sys, stream, terminal)
        action()
    reader.join()
    os.close(ours)
    return b"".join(read).decode()
