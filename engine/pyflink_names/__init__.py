"""Import Penstock as `pyflink` under `penstock run` and `penstock info`, and in their Spark workers."""

from penstock.engine.pyflink_names.modules import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
