"""Estimates the memory that an entry of a state takes."""

from itertools import islice
from sys import getsizeof
from typing import Any

_SLOT_BYTES = 100  #: a dictionary's share for one entry, spare room included
_SAMPLE = 32
_DEPTH = 4


def entry_bytes(key: Any, value: Any) -> int:
    """Bytes of a dictionary entry: slot, key, value.

    Large collections are judged by some of their elements.
    """
    return _SLOT_BYTES + _bytes(key, _DEPTH) + _bytes(value, _DEPTH)


def value_bytes(value: Any) -> int:
    """Bytes of a value. Large collections are judged by some of their elements."""
    return _bytes(value, _DEPTH)


def _bytes(value: Any, depth: int) -> int:
    own = getsizeof(value)
    if depth == 0:
        return own
    if isinstance(value, dict):
        sizes = [
            _bytes(key, depth - 1) + _bytes(item, depth - 1) for key, item in islice(value.items(), _SAMPLE)
        ]
    elif isinstance(value, (list, tuple, set, frozenset)):
        sizes = [_bytes(item, depth - 1) for item in islice(value, _SAMPLE)]
    elif hasattr(value, "__dict__"):
        return own + _bytes(vars(value), depth - 1)
    else:
        return own
    return own + (len(value) * sum(sizes) // len(sizes) if sizes else 0)
