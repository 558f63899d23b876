"""pyflink.table: only DataTypes, which PyFlink's file formats take; the Table API is not part of Penstock."""

from typing import NoReturn

from penstock.engine.pyflink_names.modules import REFUSED_MODULES
from penstock.engine.pyflink_names.unsupported_names import unsupported_name
from penstock.operators.formats.data_types import DataTypes

__all__ = ["DataTypes"]


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(f"module 'pyflink.table' has no attribute {name!r}")
    raise unsupported_name(f"pyflink.table.{name}", REFUSED_MODULES["pyflink.table"])
