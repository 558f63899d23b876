"""What Flink 2.3.0 says about network buffers and memory (see FlinkResources.java)."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_TABLE = Path(__file__).parent / "flink_resources.jsonl.gz"


@cache
def _table() -> list[Row]:
    with gzip.open(_TABLE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def rows(kind: str) -> list[Row]:
    """The rows of one kind; there are some."""
    found = [row for row in _table() if row["kind"] == kind]
    assert found, kind
    return found
