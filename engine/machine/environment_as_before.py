"""Environment variables that are the caller's, and are given back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def environment_as_before(*names: str) -> Iterator[None]:
    """Give these variables the values back that they had, or none, when the context ends."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
