"""CSV, under PyFlink's names. Where PyFlink takes DataTypes, these take Types."""

from penstock.operators.formats.csv_files import CsvBulkWriters, CsvReaderFormat
from penstock.operators.formats.csv_rows import CsvSchema, CsvSchemaBuilder
from penstock.operators.formats.csv_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
