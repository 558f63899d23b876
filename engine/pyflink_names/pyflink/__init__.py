"""Penstock instead of PyFlink.

This file and its folder are `pyflink.__file__` and `pyflink.__path__` while `pyflink` means Penstock. The
import hook finds its modules in `penstock.engine`; the folder itself has none.
"""

from penstock.engine.pyflink_names.modules import PYFLINK_VERSION

__version__ = PYFLINK_VERSION
