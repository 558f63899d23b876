"""The version of PyFlink whose names these are."""

from penstock.engine.pyflink_names.modules import PYFLINK_VERSION

__version__ = PYFLINK_VERSION
