"""Streams, their functions, state and windows: what jobs are written with.

The names of PyFlink's `pyflink.datastream` and of its modules functions, state and window.
"""

from engine.datastream import *  # noqa: F403
from engine.datastream.functions import *  # noqa: F403
from engine.datastream.state import *  # noqa: F403
from engine.datastream.window import *  # noqa: F403
