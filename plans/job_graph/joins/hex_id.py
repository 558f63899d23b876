"""Ids of two longs as Flink prints them."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def hex_id(lower: str, upper: str) -> Column:
    """Flink's AbstractID.toString of an id held as two longs."""
    return F.lower(F.concat(_digits(lower), _digits(upper)))


def _digits(half: str) -> Column:
    # Most longs have all of their digits; lpad looks at each of them.
    digits = F.hex(half)
    return F.when(F.shiftrightunsigned(half, 60) != 0, digits).otherwise(F.lpad(digits, 16, "0"))
