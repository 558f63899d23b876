"""Streams, their functions, state and windows: what jobs are written with.

The names of PyFlink's `pyflink.datastream` and of its modules functions, state and window.
"""

from penstock.datastream.functions import *
from penstock.datastream.state import *
from penstock.datastream.window import *
from penstock.engine.pyflink.datastream import *
