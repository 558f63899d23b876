"""Which store, and which version of it, a text names: STORE or STORE@VERSION."""

import os
import re

from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.manifest import MANIFEST

AT_VERSION = re.compile(r"(?P<store>.+)@(?P<version>\d+)")
"""A version of a store, as plan and diff take it."""


def local_store_and_version(path: str) -> tuple[str, int | None] | None:
    """The local store that a path names, and the version (None: the newest); None for other paths."""
    if _is_store(path):
        return path, None
    found = AT_VERSION.fullmatch(path)
    if found is None or os.path.exists(path) or not _is_store(found["store"]):
        return None
    return found["store"], int(found["version"])


def _is_store(path: str) -> bool:
    return is_local(path) and os.path.isdir(os.path.join(local_folder(path), MANIFEST))
