"""Sources of files by one call: text, CSV, JSON lines, Parquet.

`paths` are files, or folders with everything below them, as paths or URIs; files whose names start with `.`
or `_` are left out. Big files are cut over the subtasks, compressed ones are read whole. Raises ValueError
without paths; FileNotFoundError, when the job is planned, where one leads nowhere.
"""

from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.operators.connectors.file_source import FileSource
from penstock.operators.files.filesystem import find_files
from penstock.operators.formats.column_lines import CsvColumns, JsonLines
from penstock.operators.formats.file_format import TextLineFormat
from penstock.operators.formats.parquet_files import ParquetRows, type_of_parquet


def text_source(*paths: str, charset: str = "UTF-8") -> FileSource:
    """Lines as strings."""
    return FileSource(TextLineFormat(charset), paths)


def csv_source(
    *paths: str,
    type_info: RowTypeInfo,
    header: bool = True,
    delimiter: str = ",",
    nulls: tuple[str, ...] = ("",),
) -> FileSource:
    """Rows of CSV files; no value may hold a line end (CsvReaderFormat takes those). See CsvColumns."""
    return FileSource(CsvColumns(type_info, header=header, delimiter=delimiter, nulls=nulls), paths)


def json_lines_source(*paths: str, type_info: TypeInformation | None = None) -> FileSource:
    """One value per line: rows of a type, or any JSON. See JsonLines."""
    return FileSource(JsonLines(type_info), paths)


def parquet_source(*paths: str, type_info: RowTypeInfo | None = None) -> FileSource:
    """Rows of Parquet files: columns by name. Without `type_info`, all columns of the first file.

    ValueError without a type if there is no file.
    """
    if type_info is None:
        files = find_files(paths)
        if not files:
            raise ValueError(f"there is no file in {', '.join(paths)} to take the type from")
        type_info = type_of_parquet(files[0].path)
    return FileSource(ParquetRows(type_info), paths)
