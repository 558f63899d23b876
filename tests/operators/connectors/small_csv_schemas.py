"""Two CSV schemas: of two strings, and of numbers."""

from penstock.operators.common.typeinfo import Types
from penstock.operators.formats.csv_rows import CsvSchema

TWO_STRINGS = Types.ROW([Types.STRING(), Types.STRING()])


def two():
    return CsvSchema.builder().add_string_column("a").add_string_column("b")


def numbers():
    return CsvSchema.builder().add_number_column("n").add_string_column("x")
