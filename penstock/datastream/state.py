"""State and its descriptors: PyFlink's `pyflink.datastream.state`."""

from penstock.engine.pyflink.datastream.state import *
