"""Match operators of a new topology to operators of the old topology."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from penstock.plans.tables.column_types import TOPOLOGY

# Identity of an operator, apart from its ids.


_NUMBER = r"^\[(\d+)\]:"
"""Number that the Table planner gives an operator; later statements of a script continue the count."""
_NUMBER_IN_NAME = r"^((?:Source: |Sink: )?)\[\d+\]:"
_NUMBER_BEFORE_PART = r"^(.+)\[\d+\](: .+)$"
"""The same in names of a sink's parts, `revenue[16]: Writer`, which have no description."""
_COUNTED_NAMES = r"(\*anonymous_\w+\$|\bUnregistered_\w+_|\bUnnamedTable\$)\d+"

IDENTITY_COLUMNS = ("description", "operator_class", "function_class", "output_type")
"""Columns of stream_nodes that with_identity reads in addition to the name."""


def with_identity(operators: pl.DataFrame, is_keyed: pl.Expr) -> pl.DataFrame:
    """Add `is_keyed`, `is_sql`, `label`, `meaning` and `signature` to stream nodes.

    `label` is the name and `meaning` the description (null if equal to the name), both without the Table
    planner's numbers. Operators of equal `signature` have equal labels, meanings, kinds, keys and output
    types. `is_sql`: made by the Table planner.
    """
    number = pl.col("description").str.extract(_NUMBER)
    plain = pl.col("name").str.strip_suffix(pl.format("[{}]", number)).str.replace(_NUMBER_IN_NAME, "${1}")
    meaning = pl.col("description").str.replace(_NUMBER, "").str.replace_all(_COUNTED_NAMES, "${1}")
    is_part = (
        pl.col("description").is_null()
        & pl.col("name").str.contains(_NUMBER_BEFORE_PART)
        & number.is_not_null().any().over(TOPOLOGY)
    )
    label = (
        pl.when(number.is_not_null())
        .then(plain)
        .when(is_part)
        .then(pl.col("name").str.replace(_NUMBER_BEFORE_PART, "${1}${2}"))
        .otherwise("name")
    )
    named = operators.with_columns(
        is_keyed=is_keyed,
        is_sql=number.is_not_null() | is_part,
        label=label.str.replace_all(_COUNTED_NAMES, "${1}"),
    )
    named = named.with_columns(meaning=pl.when((meaning != "") & (meaning != pl.col("name"))).then(meaning))
    return named.with_columns(
        signature=pl.struct(
            *("label", "meaning", "operator_class", "function_class", "output_type"),
            *("is_keyed", "among_sources"),
        ).hash()
    )


# The pairs.


_OCCURRENCE = "occurrence"
_AROUND = ("around 3", "around 2", "around 1")
_BESIDE = ("above 3", "below 3", "above 1", "below 1")


class _Rule(NamedTuple):
    """Pairs operators with equal keys. `certain`: no other operator can be the same."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    certain: bool = True
    unique: bool = False  #: only if a single operator on each side has the key
    sql: bool = True  #: also for operators of the Table planner


_BY_ID = (
    _Rule(("uid", "sql_signature"), ("uid", "sql_signature")),
    _Rule(("operator_id", "sql_signature"), ("user_defined_operator_id", "sql_signature")),
    _Rule(("signature", "operator_id"), ("signature", "operator_id")),
)
_BY_PLACE = (
    *(_Rule(("signature", key), ("signature", key), unique=True) for key in _AROUND),
    *(_Rule(("signature", key), ("signature", key), certain=False, unique=True) for key in _BESIDE),
)
_BY_NAME = (
    _Rule(("signature", _OCCURRENCE), ("signature", _OCCURRENCE), certain=False),
    _Rule(("label", "operator_id"), ("label", "operator_id"), certain=False, sql=False),
    _Rule(("label", "of_label"), ("label", "of_label"), certain=False, sql=False),
    _Rule(("operator_id",), ("operator_id",), certain=False, sql=False),
)
_ALONE = {"signature": "alone_by_signature", "label": "alone_by_label"}


def match_operators(
    old: pl.DataFrame, new: pl.DataFrame, old_edges: pl.DataFrame, new_edges: pl.DataFrame
) -> pl.DataFrame:
    """Return (topology_id, old_node, new_node, certain) of matching operators; each is in at most one row.

    `old` and `new` are KeyedPlans.operators, the edges are stream_edges; a topology and its older one share
    topology_id. Rules in order: the uid; a uid hash of the new operator; the signature (see with_identity)
    with the operator id, with the surroundings of the operator, and alone, first with first; the name, if
    nothing known differs; the operator id alone (a renamed operator). Operators of the Table planner always
    need equal signatures. `certain` is false if another operator could be meant.
    """
    olds, news = _counted(old), _counted(new)
    matches: list[pl.DataFrame] = []

    def apply(rules: tuple[_Rule, ...]) -> None:
        nonlocal olds, news
        for rule in rules:
            matched = _paired(olds, news, rule)
            matches.append(matched)
            olds = olds.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="anti")
            news = news.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "new_node"], how="anti")

    apply(_BY_ID)
    several = pl.concat(
        side.filter(~pl.col("alone_by_signature")).select(TOPOLOGY, "signature") for side in (olds, news)
    ).unique()
    if len(several):
        sides = ((olds, old, old_edges), (news, new, new_edges))
        olds, news = (_placed(left, side, edges, several) for left, side, edges in sides)
        apply(_BY_PLACE)
    apply(_BY_NAME)
    return pl.concat(matches)


def _counted(operators: pl.DataFrame) -> pl.DataFrame:
    return operators.sort(TOPOLOGY, "node").with_columns(
        sql_signature=pl.when("is_sql").then("signature").otherwise(pl.lit(0, pl.UInt64)),
        alike=pl.len().over(TOPOLOGY, "signature"),
        alone_by_signature=pl.len().over(TOPOLOGY, "signature") == 1,
        alone_by_label=pl.len().over(TOPOLOGY, "label") == 1,
    )


def _paired(olds: pl.DataFrame, news: pl.DataFrame, rule: _Rule) -> pl.DataFrame:
    left, right = _once(olds, rule.old, rule), _once(news, rule.new, rule)
    pairs = left.join(
        right,
        left_on=[TOPOLOGY, *rule.old],
        right_on=[TOPOLOGY, *rule.new],
        how="inner",
        suffix="_of_new",
    )
    certain = pl.lit(rule.certain)
    if (alone := _ALONE.get(rule.old[0])) is not None and not rule.unique and not rule.certain:
        certain = pl.col(alone) & pl.col(f"{alone}_of_new")
    if rule.unique:  # any of several alike operators may have been added or removed
        certain = certain & (pl.col("alike") == pl.col("alike_of_new"))
    if rule.old == ("label", "of_label"):
        alike = ("among_sources", "is_keyed", "meaning", "output_type")
        pairs = pairs.filter(*map(_agree, alike))
        certain = certain & _agree("operator_class") & _agree("function_class")
    return pairs.select(TOPOLOGY, old_node="node", new_node="node_of_new", certain=certain)


def _agree(column: str) -> pl.Expr:
    """Return whether both sides have the same value, or one is unknown."""
    return (pl.col(column) == pl.col(f"{column}_of_new")).fill_null(value=True)


_FACTS = (
    *("node", "among_sources", "is_keyed", "meaning", "output_type", "operator_class", "function_class"),
    *("alike", *_ALONE.values()),
)


def _once(operators: pl.DataFrame, key: tuple[str, ...], rule: _Rule) -> pl.DataFrame:
    """Return the first operator of each key; operators whose key is null are dropped."""
    counted = operators.with_columns(
        pl.int_range(pl.len()).over(TOPOLOGY, "signature").alias(_OCCURRENCE),
        pl.int_range(pl.len()).over(TOPOLOGY, "label").alias("of_label"),
    )
    if not rule.sql:
        counted = counted.filter(~pl.col("is_sql"))
    keyed = counted.drop_nulls(key).unique(
        [TOPOLOGY, *key], keep="none" if rule.unique else "first", maintain_order=True
    )
    return keyed.select(TOPOLOGY, *key, *(fact for fact in _FACTS if fact not in key))


def _placed(
    left: pl.DataFrame, operators: pl.DataFrame, edges: pl.DataFrame, several: pl.DataFrame
) -> pl.DataFrame:
    """Add hashes of the surroundings of ambiguous operators to `left`, up to three edges away."""
    topologies = several.select(TOPOLOGY).unique()
    colours = operators.join(topologies, on=TOPOLOGY, how="semi").select(TOPOLOGY, "node", "signature")
    edges = edges.join(topologies, on=TOPOLOGY, how="semi").select(TOPOLOGY, "source", "target")
    for direction, near, far in (("above", "target", "source"), ("below", "source", "target")):
        for distance, nearer in _distances(direction):
            reached = edges.join(
                colours.select(TOPOLOGY, pl.col("node").alias(far), pl.col(nearer).hash(1).alias("sum")),
                on=[TOPOLOGY, far],
            )
            reached = reached.group_by(TOPOLOGY, pl.col(near).alias("node")).agg(pl.col("sum").sum())
            colours = colours.join(reached, on=[TOPOLOGY, "node"], how="left").with_columns(
                pl.struct("signature", pl.col("sum").fill_null(0)).hash().alias(f"{direction} {distance}")
            )
            colours = colours.drop("sum")
    around = [
        pl.struct(f"above {distance}", f"below {distance}").hash().alias(f"around {distance}")
        for distance in (3, 2, 1)
    ]
    places = colours.join(several, on=[TOPOLOGY, "signature"], how="semi").select(
        TOPOLOGY, "node", *around, *_BESIDE
    )
    return left.join(places, on=[TOPOLOGY, "node"], how="left")


def _distances(direction: str) -> Iterator[tuple[int, str]]:
    """Yield distances from 1 on, with the column of the previous distance."""
    for distance in (1, 2, 3):
        yield distance, "signature" if distance == 1 else f"{direction} {distance - 1}"
