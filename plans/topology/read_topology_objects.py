"""Topologies that a program gives as objects, as lines."""

from collections.abc import Mapping
from typing import Any

import orjson


def encode(topology: Mapping[str, Any] | str | bytes) -> tuple[bytes, str | None]:
    """The topology as JSON, and why it cannot be written as such (None if it can)."""
    if isinstance(topology, bytes):
        return topology, None
    if isinstance(topology, str):
        return topology.encode("utf-8", "surrogatepass"), None
    try:
        return orjson.dumps(dict(topology)), None
    except Exception as e:  # whatever the mapping itself raises, too
        return b"", f"{type(topology).__name__} that is not JSON ({e})"
