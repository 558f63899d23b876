"""Ids of two longs as Flink prints them."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def hex_id(lower: str, upper: str) -> Column:
    """Flink's AbstractID.toString of an id held as two longs."""
    return F.lower(F.concat(F.lpad(F.hex(lower), 16, "0"), F.lpad(F.hex(upper), 16, "0")))
