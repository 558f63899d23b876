"""Topology lines as the input of `parse_lines`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def lines_batch(
    values: Sequence[bytes],
    file: str | None,
    ordinals: Sequence[int],
    problems: Sequence[str | None] | None = None,
    lines: Sequence[int] | None = None,
    too_long_bytes: Sequence[int | None] | None = None,
) -> pa.RecordBatch:
    """LINES of one file, or of objects; a value may be longer than 2 GiB with others in one batch."""
    n = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.large_binary()),
            "source_file": pa.nulls(n, pa.string()) if file is None else pa.array([file] * n, pa.string()),
            "block_start": pa.array(np.zeros(n, np.int64)),
            "ordinal": pa.array(ordinals, pa.int64()),
            "problem": pa.array(problems, pa.string()) if problems else pa.nulls(n, pa.string()),
            "line": pa.array(lines, pa.int64()) if lines else pa.nulls(n, pa.int64()),
            "too_long_bytes": pa.array(too_long_bytes, pa.int64())
            if too_long_bytes
            else pa.nulls(n, pa.int64()),
        }
    )
