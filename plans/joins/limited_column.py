"""`plans.message_limits.limited` as an expression of Spark."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from plans.message_limits import MOST_CHARACTERS


def limited_column(text: Column, most: int = MOST_CHARACTERS) -> Column:
    """The text, or its first `most` characters and how many more there are."""
    more = F.length(text) - most
    count = F.format_number(more, 0)
    cut = F.concat(F.substring(text, 1, most), F.lit("… ("), count, F.lit(" more characters)"))
    return F.when(more > 0, cut).otherwise(text)
