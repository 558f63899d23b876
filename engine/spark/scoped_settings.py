"""Spark settings for as long as a block lasts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def scoped_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets `wanted` on `spark` and puts back what was there: a caller's session may differ."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
