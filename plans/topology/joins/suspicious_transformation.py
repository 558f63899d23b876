"""Whether one row of a transformations table may be wrong, as one expression."""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.plans.topology.operator_rules import (
    INPUT_COUNTS,
    MAX_PARALLELISM,
    OPERATOR_SCOPE,
    RESOURCE_RULES,
    SLOT_SCOPE,
)
from penstock.plans.topology.suspicious_transformation import OPERATOR_COLUMNS, PHYSICAL
from penstock.plans.vocabulary import WRITTEN_KINDS, ChainingStrategy, Kind, Partitioner, StreamExchangeMode


def suspicious_transformation() -> Column:
    """True for every row of TRANSFORMATIONS that `validate_transformations` would refuse by itself.

    The rules of `operator_rules` as an expression: a row it calls right is right, given that its
    topology's ids are 1..n. What it calls suspicious is explained, or cleared, by `validate_transformations`.
    """
    kind = F.col("kind")
    physical = kind.isin(PHYSICAL)
    rules = [
        kind.isin([str(k) for k in WRITTEN_KINDS]),
        F.col("sink_topology").isNull(),
        _number_of_inputs(),
        (F.size("inputs") == 0) | _inputs_are_before(),
        physical | reduce(lambda a, b: a & b, (F.col(c).isNull() for c in OPERATOR_COLUMNS)),
        physical | ((F.size("managed_memory") == 0) & (F.size("slot_scope") == 0)),
        _unset_or("parallelism", F.col("parallelism") >= 1),
        _unset_or("max_parallelism", F.col("max_parallelism").between(1, MAX_PARALLELISM)),
        _unset_or("uid_hash", F.col("uid_hash").rlike("^[0-9A-Fa-f]{32}\\z")),
        _unset_or("buffer_timeout", F.col("buffer_timeout") >= -1),
        _unset_or("chaining", F.col("chaining").isin([str(c) for c in ChainingStrategy])),
        (F.size("managed_memory") == 0) | _managed_memory(),
        (F.size("slot_scope") == 0) | F.forall("slot_scope", lambda u: u.isin([str(s) for s in SLOT_SCOPE])),
        _resources(),
        _only_on(Kind.PARTITION, "partitioner", F.col("partitioner").isin([str(p) for p in Partitioner])),
        _unset_or("exchange_mode", F.col("exchange_mode").isin([str(m) for m in StreamExchangeMode])),
        (kind == str(Kind.PARTITION)) | F.col("exchange_mode").isNull(),
        _only_on(Kind.SIDE_OUTPUT, "tag", F.col("tag") != ""),
        _only_on(Kind.SELECT, "names", F.forall("names", lambda n: n.isNotNull())),
    ]
    return ~F.coalesce(reduce(lambda a, b: a & b, rules), F.lit(False))


def _unset_or(name: str, right: Column) -> Column:
    return F.col(name).isNull() | right


def _only_on(kind: Kind, name: str, right: Column) -> Column:
    """Set and right on its kind, null on others."""
    return F.when(F.col("kind") == str(kind), F.col(name).isNotNull() & right).otherwise(F.col(name).isNull())


def _managed_memory() -> Column:
    known = F.forall(F.map_keys("managed_memory"), lambda k: k.isin([str(u) for u in OPERATOR_SCOPE]))
    distinct = F.size(F.array_distinct(F.map_keys("managed_memory"))) == F.size("managed_memory")
    return known & distinct & F.forall(F.map_values("managed_memory"), lambda w: w >= 1)


def _number_of_inputs() -> Column:
    kinds_by_count: dict[tuple[int, int], list[str]] = {}
    for kind, count in INPUT_COUNTS.items():
        kinds_by_count.setdefault(count, []).append(kind)
    size = F.size("inputs")
    return reduce(
        lambda a, b: a | b,
        (F.col("kind").isin(kinds) & size.between(*count) for count, kinds in kinds_by_count.items()),
    )


def _inputs_are_before() -> Column:
    # Nulls are sorted first. Not exists(): Spark does not compile its lambda, which would run for every row.
    return (F.get(F.sort_array("inputs"), 0) >= 1) & (F.array_max("inputs") < F.col("id"))


def _resources() -> Column:
    low, high = F.col("min_resources"), F.col("preferred_resources")
    ordered = reduce(lambda a, b: a & b, ((low[k] <= high[k]) & (low[k] >= 0) for k in RESOURCE_RULES))
    return (low.isNull() & high.isNull()) | (ordered & (low["cpu_cores"] > 0) & (high["cpu_cores"] < 1e9))
