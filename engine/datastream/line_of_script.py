"""Where in a script a method was called."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).parents[1])


def line_of_script() -> str:
    """The file and line of the nearest caller outside Penstock, as `file:line`; empty where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
