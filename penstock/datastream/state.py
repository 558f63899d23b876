"""State and its descriptors: PyFlink's `pyflink.datastream.state`."""

from penstock.engine.datastream.state import *
