"""Files that are JSON documents, read by Spark line by line, as LINES of their elements."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.topology.columnar.read_topology_files import elements_as_lines
from plans.topology.line_too_long import MAX_LINE_BYTES
from plans.topology.parse_lines import LINES

_FILES_A_CORE = 4


def with_elements(lines: DataFrame, documents: Sequence[str], max_line_bytes: int | None) -> DataFrame:
    """`lines` (LINES), but of the files `documents` their elements.

    The lines of a document meet in one partition, in their order; of each no more is held than one element.
    """
    of_document = F.col("source_file").isin(list(documents))
    cores = lines.sparkSession.sparkContext.defaultParallelism
    in_order = (
        lines.where(of_document)
        .mapInArrow(_with_places, f"{LINES}, place long")
        .repartition(min(len(documents), _FILES_A_CORE * cores), "source_file")
        .sortWithinPartitions("source_file", "block_start", "place")
        .select("value", "source_file")
    )
    elements = in_order.mapInArrow(
        partial(_elements, max_line_bytes=MAX_LINE_BYTES if max_line_bytes is None else max_line_bytes), LINES
    )
    return lines.where(~of_document).unionByName(elements)


def _with_places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The lines of a partition, numbered in the order in which Spark reads them."""
    first = 0
    for batch in batches:
        places = pa.array(range(first, first + len(batch)), pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, places], [*batch.schema.names, "place"])
        first += len(batch)


def _elements(batches: Iterable[pa.RecordBatch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    for file, texts in groupby(_texts(batches), itemgetter(0)):
        yield from elements_as_lines((text for _, text in texts), file, max_line_bytes)


def _texts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    """File and lines, many together."""
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for file, lines in groupby(rows, itemgetter(1)):
            yield file, b"".join(value + b"\n" for value, _ in lines)
