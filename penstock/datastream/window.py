"""Windows, assigners and triggers: PyFlink's `pyflink.datastream.window`."""

from penstock.engine.pyflink.datastream.window import *
