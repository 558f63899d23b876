"""Streams, their functions, state and windows: what jobs are written with.

The names of PyFlink's `pyflink.datastream` and of its modules functions, state and window.
"""

from penstock.engine.datastream import *
from penstock.engine.datastream.functions import *
from penstock.engine.datastream.state import *
from penstock.engine.datastream.window import *
