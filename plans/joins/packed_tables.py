"""Tables of a plan that Python workers make of other rows, and can write as they make them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

Batches = Iterable[pa.RecordBatch]

Parts = Callable[[Batches, Collection[str]], Iterator[tuple[str, pa.Table]]]
"""From batches of rows and names of tables to (table, some of its rows), those of a table one after another
as far as possible."""


class PackedTables(NamedTuple):
    """`tables` of a plan, which workers make of `rows` by `parts`."""

    rows: DataFrame
    tables: frozenset[str]
    parts: Parts
