"""Topology files on remote file systems, read by Spark, of which no line is held if it is too long.

Hadoop's reader skips lines that are longer than its limit, but cuts off the last one of its part of the file.
With a limit above the size of a part (spark.sql.files.maxPartitionBytes), every line that long is a last one.
Source: org.apache.hadoop.mapreduce.lib.input.LineRecordReader.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.joins.elements_of_documents import PIECE_ENDS_AT, elements_of_documents
from penstock.plans.topology.joins.parse_all_but_documents import parse_all_but_documents
from penstock.plans.topology.joins.parse_packed_files import as_they_are, packed_pieces, parse_packed_files
from penstock.plans.topology.joins.topologies_of_lines import parsed_lines
from penstock.plans.topology.json_documents import HEAD_BYTES
from penstock.plans.topology.parsed_batches import PARSED
from penstock.plans.topology.unpacked_texts import CODECS

_LONGEST = "mapreduce.input.linerecordreader.line.maxlength"
_LARGEST_INT = 2**31 - 1


def parse_remote_files(
    spark: SparkSession,
    read: Callable[..., DataFrame],
    found: Sequence[str],
    max_line_bytes: int,
    job_defaults: JobDefaults,
    documents: Sequence[str] = (),
) -> Iterator[DataFrame]:
    """What the files `found` hold, as PARSED, in several DataFrames.

    `read`: gives those files by Spark's reader of text, with options. `documents`: those of them that are
    known to be documents; others that are documents only say so. Files that a codec of the user's own unpacks
    are read by whole lines.
    """
    packed, others = _endings(spark, found)
    most = spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes()
    cut_bytes = min(max(max_line_bytes, most) + 2, _LARGEST_INT)
    bounded = {_LONGEST: str(cut_bytes)}
    path = F.col("_metadata.file_path")

    def parsed(text: DataFrame) -> DataFrame:
        lines = _lines(text.where(~path.isin(list(documents))) if documents else text, max_line_bytes)
        parse = partial(
            parse_all_but_documents,
            max_line_bytes=max_line_bytes,
            job_defaults=job_defaults,
            cut_bytes=cut_bytes,
        )
        return lines.mapInArrow(parse, from_arrow_schema(PARSED))

    yield parsed(read(**bounded).where(_none_ends_in(path, [*packed, *others])))
    for ending in others:
        yield parsed(read().where(path.endswith(ending)))
    for ending in packed:
        pieces = packed_pieces(read(**as_they_are(ending)).where(path.endswith(ending)))
        parse = partial(
            parse_packed_files, ending=ending, max_line_bytes=max_line_bytes, job_defaults=job_defaults
        )
        yield pieces.mapInArrow(parse, from_arrow_schema(PARSED))
    if documents:
        text = read(lineSep=PIECE_ENDS_AT, **bounded)
        elements = elements_of_documents(text, documents, max_line_bytes)
        yield parsed_lines(elements, max_line_bytes, job_defaults, cut_bytes)


def _endings(spark: SparkSession, found: Sequence[str]) -> tuple[list[str], list[str]]:
    """What names of packed files end in: those that workers unpack, and those that only Hadoop can."""
    jvm = spark._jvm
    assert jvm is not None
    hadoop = jvm.org.apache.hadoop
    known = hadoop.io.compress.CompressionCodecFactory(spark._jsparkSession.sessionState().newHadoopConf())
    endings = sorted({os.path.splitext(uri)[1] for uri in found})
    packed = [ending for ending in endings if ending in CODECS]
    others = [e for e in endings if e and e not in CODECS and known.getCodec(hadoop.fs.Path(f"x{e}"))]
    return packed, others


def _none_ends_in(path: Column, endings: Sequence[str]) -> Column:
    found = F.lit(True)
    for ending in endings:
        found &= ~path.endswith(ending)
    return found


def _lines(text: DataFrame, max_line_bytes: int) -> DataFrame:
    """LINES. Of a line that is too long, a worker gets what may tell that it is a document."""
    size = F.octet_length("value").cast("long")
    too_long = size > max_line_bytes
    value = F.col("value").cast("binary")
    return text.select(
        F.when(too_long, F.substring(value, 1, HEAD_BYTES)).otherwise(value).alias("value"),
        F.col("_metadata.file_path").alias("source_file"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.lit(None).cast("long").alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.when(too_long, size).alias("too_long_bytes"),
    )
