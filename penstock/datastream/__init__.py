"""Streams, their functions, state and windows: what jobs are written with.

The names of PyFlink's `pyflink.datastream` and of its modules functions, state and window.
"""

from penstock.engine.pyflink.datastream import *
from penstock.engine.pyflink.datastream.functions import *
from penstock.engine.pyflink.datastream.state import *
from penstock.engine.pyflink.datastream.window import *
