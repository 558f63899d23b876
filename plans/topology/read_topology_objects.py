"""Topologies that a program gives as objects, as lines."""

from collections.abc import Mapping
from typing import Any

import orjson


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and mappings other than dicts, as plain JSON values."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def encode(topology: Mapping[str, Any] | str | bytes) -> tuple[bytes, str | None]:
    """The topology as JSON, and why it cannot be written as such (None if it can).

    Numbers and arrays of NumPy are what they hold.
    """
    if isinstance(topology, bytes):
        return topology, None
    if isinstance(topology, str):
        return topology.encode("utf-8", "surrogatepass"), None
    try:
        return orjson.dumps(dict(topology), _plain), None
    except Exception as e:  # also what the mapping itself raises
        return b"", f"{type(topology).__name__} that is not JSON ({e})"
