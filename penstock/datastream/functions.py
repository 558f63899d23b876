"""Functions of streams: PyFlink's `pyflink.datastream.functions`."""

from penstock.engine.pyflink.datastream.functions import *
