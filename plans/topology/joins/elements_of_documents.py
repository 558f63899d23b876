"""Files that are JSON documents, read by Spark piece by piece, as LINES of their elements.

A piece ends at a quotation mark: a line may be as long as the whole document, while a string that is longer
than an element may be makes its element too long.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count, groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.topology.columnar.read_topology_files import elements_as_lines
from penstock.plans.topology.parse_lines import LINES
from penstock.plans.topology.texts_of_file import BLOCK_BYTES

PIECE_ENDS_AT = '"'

_FILES_A_CORE = 4
_END = PIECE_ENDS_AT.encode()
_SCHEMA = pa.schema(
    [("value", pa.binary()), ("source_file", pa.string()), ("block_start", pa.int64()), ("place", pa.int64())]
)


def elements_of_documents(text: DataFrame, documents: Sequence[str], max_line_bytes: int) -> DataFrame:
    """The elements of the files `documents` as LINES; `text` reads them in pieces.

    The pieces of a document meet in one partition, in their order; of each no more is held than one element.
    """
    cores = text.sparkSession.sparkContext.defaultParallelism
    place = F.col("_metadata.file_path").alias("source_file"), F.col("_metadata.file_block_start")
    in_order = (
        text.select(F.col("value").cast("binary"), *place)
        .where(F.col("source_file").isin(list(documents)))
        .mapInArrow(_joined, from_arrow_schema(_SCHEMA))
        .repartition(min(len(documents), _FILES_A_CORE * cores), "source_file")
        .sortWithinPartitions("source_file", "block_start", "place")
        .select("value", "source_file")
    )
    return in_order.mapInArrow(partial(_elements, max_line_bytes=max_line_bytes), LINES)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pieces of a partition, many in one row, numbered in the order in which Spark reads them."""
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    numbers = count()
    for (file, start), of_block in groupby(rows, itemgetter(1, 2)):
        for text in _texts_together(value for value, _, _ in of_block):
            row = {"value": text, "source_file": file, "block_start": start, "place": next(numbers)}
            yield pa.RecordBatch.from_pylist([row], _SCHEMA)


def _texts_together(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield _END.join(held)
            held, size = [], 0
    if held:
        yield _END.join(held)


def _elements(batches: Iterable[pa.RecordBatch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for file, pieces in groupby(rows, itemgetter(1)):
        yield from elements_as_lines(_texts(value for value, _ in pieces), file, max_line_bytes)


def _texts(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces and the quotation marks between them."""
    yield next(pieces, b"")
    for piece in pieces:
        yield _END + piece
