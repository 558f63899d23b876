"""Standard input, output and error of a process that was started without one of them (`penstock … >&-`)."""

import os
import sys


def open_missing_standard_files() -> None:
    """Open /dev/null as those of the three that are closed.

    Otherwise the next file that is opened would get the number, and what is said would be written into it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
