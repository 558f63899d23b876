"""CSV, under PyFlink's names. Where PyFlink takes DataTypes, these take Types."""

from operators.formats.csv_files import CsvBulkWriters, CsvReaderFormat
from operators.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from operators.formats.csv_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
