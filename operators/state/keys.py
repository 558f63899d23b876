"""Keys of a stream as dictionaries can hold them, without losing what the key selector gave."""

from collections.abc import Hashable, Sequence
from typing import Any

from operators.common.hashable_key import hashable_key

#: Types whose values are keys as they are. Not bool and float: True, 1.0 and 1 are equal but different keys.
_PLAIN = frozenset({int, str, bytes})


class BoxedKey:
    """A key that a dictionary would refuse or confuse: its hashable form beside what the selector gave."""

    __slots__ = ("_hash", "form", "original")

    def __init__(self, form: Hashable, original: Any) -> None:
        self.form, self.original = form, original
        self._hash = hash(form)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is BoxedKey and self.form == other.form

    def __reduce__(self) -> tuple[type["BoxedKey"], tuple[Hashable, Any]]:
        return BoxedKey, (self.form, self.original)


def dictionary_key(key: Any) -> Any:
    """`key` itself where a dictionary may hold it, a BoxedKey otherwise.

    Raises TypeError: not hashable at all.
    """
    if type(key) in _PLAIN:
        return key
    form = hashable_key(key)
    return key if form is key else BoxedKey(form, key)


def dictionary_keys(keys: list[Any]) -> Sequence[Any]:
    """`dictionary_key` of each; the list itself where all are plain."""
    if _PLAIN.issuperset(map(type, keys)):
        return keys
    return [dictionary_key(key) for key in keys]


def original_key(key: Any) -> Any:
    """What the key selector gave, of a `dictionary_key`."""
    return key.original if type(key) is BoxedKey else key
