"""The order in which a java.util.HashMap gives its entries, where keys are Flink's ids."""

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
_LEAST_TABLE = 1
_LOAD_FACTOR = 0.75


def hash_map_order(items: Iterable[_T], key: Callable[[_T], str], expected_size: int) -> list[_T]:
    """`items`, put into a new map one after the other, in the order of the map's values.

    `key`: an id of 32 hex digits, different for each item. `expected_size`: what the map was made for.
    Source: java.util.HashMap, org.apache.flink.util.CollectionUtil.newHashMapWithExpectedSize.
    """
    given = list(items)
    table = _LEAST_TABLE
    while table < _required_capacity(expected_size):
        table *= 2
    while len(given) > table * _LOAD_FACTOR:
        table *= 2
    return sorted(given, key=lambda item: _spread(_hash_code(key(item))) & (table - 1))


def _required_capacity(expected_size: int) -> int:
    if expected_size <= 2:
        return expected_size + 1
    return -int(-expected_size // _LOAD_FACTOR)


def _hash_code(hex_id: str) -> int:
    """AbstractID.hashCode: the id's four words of 32 bits, xor."""
    number = int(hex_id, 16)
    half = (number >> 64) ^ number
    return ((half >> 32) ^ half) & 0xFFFFFFFF


def _spread(hash_code: int) -> int:
    return hash_code ^ hash_code >> 16
