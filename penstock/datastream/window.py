"""Windows, assigners and triggers: PyFlink's `pyflink.datastream.window`."""

from penstock.engine.datastream.window import *
