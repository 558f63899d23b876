"""Estimate the memory of an entry of a state."""

from itertools import islice
from sys import getsizeof
from typing import Any

_SLOT_BYTES = 100  #: a dictionary's bytes per entry, including spare room
_SAMPLE = 32
_DEPTH = 4


def entry_bytes(key: Any, value: Any) -> int:
    """Return the bytes of a dictionary entry with its slot, key and value.

    For large collections, they are estimated from some elements.
    """
    return _SLOT_BYTES + _bytes(key, _DEPTH) + _bytes(value, _DEPTH)


def value_bytes(value: Any) -> int:
    """Return the bytes of a value; for large collections, estimated from some elements."""
    return _bytes(value, _DEPTH)


def _bytes(value: Any, depth: int) -> int:
    shallow = getsizeof(value)
    if depth == 0:
        return shallow
    if isinstance(value, dict):
        sizes = [
            _bytes(key, depth - 1) + _bytes(item, depth - 1) for key, item in islice(value.items(), _SAMPLE)
        ]
    elif isinstance(value, (list, tuple, set, frozenset)):
        sizes = [_bytes(item, depth - 1) for item in islice(value, _SAMPLE)]
    elif hasattr(value, "__dict__"):
        return shallow + _bytes(vars(value), depth - 1)
    else:
        return shallow
    return shallow + (len(value) * sum(sizes) // len(sizes) if sizes else 0)
