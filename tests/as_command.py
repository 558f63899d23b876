"""Call commands in a process of tests, and restore the process afterwards."""

import atexit
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.commands.main import end_before_duckdb
from penstock.engine.machine.stop_on_signals import _WORDS, _Stop


@contextmanager
def as_command() -> Iterator[None]:
    """Restore the parts of the process that `engine.commands.main.main` changes."""
    state = (_Stop.handling, _Stop.number, _Stop.on_interrupt)
    handlers = {number: signal.getsignal(number) for number in _WORDS}
    hooks = (sys.stdout, sys.stderr, sys.unraisablehook, warnings.showwarning)
    standard_output = os.dup(1)
    try:
        yield
    finally:
        os.dup2(standard_output, 1)
        os.close(standard_output)
        sys.stdout, sys.stderr, sys.unraisablehook, warnings.showwarning = hooks
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _Stop.handling, _Stop.number, _Stop.on_interrupt = state
        atexit.unregister(end_before_duckdb)
