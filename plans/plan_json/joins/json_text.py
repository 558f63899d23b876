"""JSON text put together from columns, in the JVM."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

KEEP_NULLS = {"ignoreNullFields": "false"}
LEAVE_NULLS_OUT = {"ignoreNullFields": "true"}


def json_lists(
    rows: DataFrame, keys: list[str], order: list[str], members: dict[str, Column], options: dict[str, str]
) -> DataFrame:
    """(keys, json): for each key a JSON list of its rows as objects of `members`, sorted by `order`."""
    value = F.to_json(F.struct(*(column.alias(name) for name, column in members.items())), options)
    return joined_lists(rows.select(*keys, *order, value.alias("json")), keys, order)


def joined_lists(rows: DataFrame, keys: list[str], order: list[str]) -> DataFrame:
    """(keys, json): for each key a JSON list of the values `json` of its rows, sorted by `order`."""
    listed = F.sort_array(F.collect_list(F.struct(*order, "json")))
    return (
        rows.groupBy(*keys)
        .agg(listed.alias("listed"))
        .select(*keys, in_list(F.col("listed.json")).alias("json"))
    )


def in_list(values: Column) -> Column:
    """An array of JSON texts as one JSON list."""
    return F.concat(F.lit("["), F.array_join(values, ","), F.lit("]"))


def without_brace(json: Column) -> Column:
    """A JSON object's text without its last character, to be continued."""
    return F.substring(json, F.lit(1), F.length(json) - 1)
