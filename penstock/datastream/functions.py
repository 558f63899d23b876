"""Functions of streams: PyFlink's `pyflink.datastream.functions`."""

from penstock.engine.datastream.functions import *
