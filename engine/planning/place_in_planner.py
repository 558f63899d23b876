"""Where in a custom planner something is: the file and line that messages name."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.engine.planning.planner_program import PlannerProgram

_INSTALLED = ("site-packages", "dist-packages", "/lib/python3")


def place_of_function(function: Callable[..., Any]) -> str:
    """`mine.py, line 5`: where a function is defined, or the program that it is; empty where unknown."""
    if isinstance(function, PlannerProgram):
        return function.name
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{as_imported(code.co_filename)}, line {code.co_firstlineno}"


def place_of_error(error: BaseException, apart: str) -> str:
    """`mine.py, line 5, in policy`: the deepest frame outside of installed packages, if any is.

    `apart`: a file whose frames are not meant.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != apart and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if not any(folder in frame.filename for folder in _INSTALLED)]
    for frame in reversed(own or frames):
        return f"{as_imported(frame.filename)}, line {frame.lineno}, in {frame.name}"
    return ""


def as_imported(path: str) -> str:
    """The path from the folder of modules that it is in: the same in workers, which have copies elsewhere."""
    folders = [folder for folder in sys.path if folder and Path(path).is_relative_to(folder)]
    return str(Path(path).relative_to(max(folders, key=len))) if folders else path
