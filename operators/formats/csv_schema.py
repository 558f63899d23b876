"""The schema of CSV files, and its builder.

Source: pyflink.datastream.formats.csv, and Jackson's com.fasterxml.jackson.dataformat.csv.CsvSchema.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.operators.formats.data_types import as_type

#: Between elements of arrays, unless set otherwise.
ARRAY_SEPARATOR = ";"


@dataclass(frozen=True)
class CsvColumn:
    """A column; `array_separator` is between the elements of an array, "" for the schema's own."""

    name: str
    type_info: TypeInformation
    array_separator: str = ""


@dataclass(frozen=True)
class CsvSettings:
    """Settings for writing and reading CSV."""

    column_separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    line_separator: str = "\n"
    null_value: str | None = None  #: None: null is written as nothing, and nothing read is a null
    array_separator: str = ARRAY_SEPARATOR
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    allow_comments: bool = False
    any_property_name: str | None = None


@dataclass(frozen=True)
class CsvSchema:
    """Columns and settings. Made with `builder`."""

    columns: tuple[CsvColumn, ...]
    settings: CsvSettings = CsvSettings()

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """A builder without columns."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowTypeInfo:
        """Type of the rows."""
        return Types.ROW_NAMED(
            [column.name for column in self.columns], [column.type_info for column in self.columns]
        )

    def separator_of(self, column: CsvColumn) -> str:
        """Between the elements of an array; "" where arrays are switched off."""
        return column.array_separator or self.settings.array_separator

    def size(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        names = ", ".join(f"{column.name}: {column.type_info}" for column in self.columns)
        return f"CsvSchema({names}; {self.settings})"


class CsvSchemaBuilder:
    """Builds a CsvSchema. Types are TypeInformation (`Types.INT()`)."""

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._settings = CsvSettings()

    def build(self) -> CsvSchema:
        """The schema. ValueError if a name occurs twice."""
        schema = CsvSchema(tuple(self._columns), self._settings)
        _ = schema.row_type
        return schema

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> Self:
        """A list whose elements (strings unless said otherwise) share one column."""
        element = Types.STRING() if element_type is None else as_type(element_type)
        self._columns.append(CsvColumn(name, Types.OBJECT_ARRAY(element), separator))
        return self

    def add_boolean_column(self, name: str) -> Self:
        """`true`, in any case, is true; all else is false."""
        self._columns.append(CsvColumn(name, Types.BOOLEAN()))
        return self

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> Self:
        """A number; LONG unless said otherwise."""
        number = Types.LONG() if number_type is None else as_type(number_type)
        self._columns.append(CsvColumn(name, number))
        return self

    def add_string_column(self, name: str) -> Self:
        """A string."""
        self._columns.append(CsvColumn(name, Types.STRING()))
        return self

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """The columns of another schema."""
        self._columns.extend(schema.columns)
        return self

    def clear_columns(self) -> Self:
        """Forget all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Skip lines that start with `#`."""
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> Self:
        """Let lines have more values than there are columns; the rest is dropped."""
        return self._set(any_property_name=name)

    def disable_array_element_separator(self) -> Self:
        """No separator for array columns that have none of their own."""
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> Self:
        """Let the schema's separator hold for the array column at `index`."""
        self._columns[index] = replace(self._columns[index], array_separator="")
        return self

    def set_array_element_separator(self, separator: str) -> Self:
        """Between elements of array columns that have no separator of their own."""
        return self._set(array_separator=separator)

    def set_column_separator(self, char: str) -> Self:
        """Between columns."""
        return self._set(column_separator=_one_character("Column separator", char))

    def disable_escape_char(self) -> Self:
        """No escape character; the default."""
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> Self:
        """Takes a character's meaning away, or gives it one (n, r, t, 0); written before it."""
        return self._set(escape=_one_character("Escape char", char))

    def set_line_separator(self, separator: str) -> Self:
        """Ends every line that is written; reading knows \\n, \\r and \\r\\n."""
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Set the text that stands for null."""
        return self._set(null_value=null_value)

    def disable_quote_char(self) -> Self:
        """No quotes."""
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> Self:
        """Set the quote around values that hold special characters."""
        return self._set(quote=_one_character("Quote char", char))

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Skip the first line, or the one after the header."""
        return self._set(skip_first_data_row=skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """The header must have the columns' names in their order."""
        return self._set(strict_headers=strict)

    def set_use_header(self, use: bool = True) -> Self:
        """The first line holds names."""
        return self._set(use_header=use)

    def size(self) -> int:
        """Number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _set(self, **settings: object) -> Self:
        self._settings = replace(self._settings, **settings)  # type: ignore[arg-type]
        return self


def _one_character(what: str, char: str) -> str:
    if len(char) != 1:
        raise ValueError(f"{what} must be a single char, got {char}")
    return char
