"""Python objects as bytes that another process can read."""

import pickle
from io import BytesIO
from types import FunctionType
from typing import Any


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError("the other process has another main module")
        return NotImplemented


def dumps(value: Any) -> bytes:
    """A pickle of `value`, for `pickle.loads`.

    What a script defines in its main module is written out with it, by cloudpickle; everything else by
    pickle, which is several times faster. Raises what cloudpickle does for what cannot be pickled.
    """
    stream = BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        from pyspark import cloudpickle

        return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return, no-untyped-call]
    return stream.getvalue()
