"""Where a table of a store is."""

import re
from pathlib import Path

from plans.errors import StoreError

_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\[\]\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")


def table_path(store: str, table: str) -> str:
    """Where a table of the store is; `store` may be a path or a URI.

    Raises StoreError for a path that Delta cannot have: delta-rs would fail or take another folder.
    """
    if "://" not in store and (found := _NOT_IN_PATHS.search(str(Path(store).absolute()))):
        raise StoreError(
            f"{store!r}: found {found.group()!r} in the store's path, which Delta tables cannot have",
            "allowed: UTF-8 without control codes, [ ] \\ and % with two hex digits; choose another folder",
        )
    # Spark takes a relative location for a table's name where it makes a table.
    root = store.rstrip("/") if "://" in store else str(Path(store).absolute())
    return f"{root}/{table}"
