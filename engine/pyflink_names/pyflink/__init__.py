"""Penstock instead of PyFlink.

The file and folder that `pyflink.__file__` and `pyflink.__path__` name while `pyflink` means Penstock. Its
modules are those of `penstock.engine`, which the import hook finds; the folder has none.
"""

from penstock.engine.pyflink_names.modules import PYFLINK_VERSION

__version__ = PYFLINK_VERSION
