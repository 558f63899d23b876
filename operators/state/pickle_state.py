"""State as bytes that only this process reads again.

So classes and functions that no other process could import (a script's own, sent here by value) are no
obstacle: they stay in memory, and their number stands for them.
"""

import pickle
from collections.abc import Iterator
from io import BytesIO
from types import BuiltinFunctionType, FunctionType
from typing import IO, Any

_kept: list[Any] = []
_numbers: dict[int, int] = {}


def dump_state(value: Any) -> bytes:
    """Pickle `value`. Raises TypeError: it holds something that cannot be pickled."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        buffer = BytesIO()
        try:
            _InProcessPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
        except Exception as error:
            raise TypeError(
                f"state {value!r:.200} does not fit into memory and cannot be pickled: {error}"
            ) from error
        return buffer.getvalue()


def load_states(file: IO[bytes]) -> Iterator[Any]:
    """The values whose pickles follow one another in `file`."""
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


class _InProcessPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, BuiltinFunctionType)) and obj is not _kept_object:
            return _kept_object, (_number_of(obj),)
        return NotImplemented


def _number_of(obj: Any) -> int:
    number = _numbers.get(id(obj))
    if number is None:
        number = _numbers[id(obj)] = len(_kept)
        _kept.append(obj)
    return number


def _kept_object(number: int) -> Any:
    return _kept[number]
