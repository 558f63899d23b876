"""Tells which records travel as pickles."""

from penstock.operators.common.typeinfo import PickledBytesTypeInfo, TypeInformation


def is_pickled(type_info: TypeInformation | None) -> bool:
    """Whether records of this type travel as pickles."""
    return type_info is None or isinstance(type_info, PickledBytesTypeInfo)
