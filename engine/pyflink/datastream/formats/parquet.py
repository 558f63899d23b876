"""Parquet, under PyFlink's names. Where PyFlink takes a RowType, these take Types.ROW_NAMED."""

from penstock.operators.formats.parquet_files import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
