"""Which operator of the new topology is which of the old one."""

import polars as pl

from penstock.plans.tables.column_types import TOPOLOGY

_OCCURRENCE = "occurrence"


def match_operators(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, old_node, new_node) of operators that are the same; each is in one row at most.

    `old` and `new` have topology_id, node, name, uid, operator_id and user_defined_operator_id; a topology
    and its older one share topology_id. What counts, in this order: the uid; a uid hash of the new one; name
    and operator id; the name, the first with the first of that name; the operator id alone (a renamed one).
    """
    found: list[pl.DataFrame] = []
    for left, right in (
        (("uid",), ("uid",)),
        (("operator_id",), ("user_defined_operator_id",)),
        (("name", "operator_id"), ("name", "operator_id")),
        (("name", _OCCURRENCE), ("name", _OCCURRENCE)),
        (("operator_id",), ("operator_id",)),
    ):
        old, new = _numbered(old), _numbered(new)
        matched = _once(old, left).join(
            _once(new, right),
            left_on=[TOPOLOGY, *left],
            right_on=[TOPOLOGY, *right],
            how="inner",
        )
        matched = matched.select(TOPOLOGY, old_node="node", new_node="node_right")
        found.append(matched)
        old = old.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="anti")
        new = new.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "new_node"], how="anti")
    return pl.concat(found)


def _numbered(operators: pl.DataFrame) -> pl.DataFrame:
    """With the position of each among those of its name."""
    return operators.sort(TOPOLOGY, "node").with_columns(
        pl.int_range(pl.len()).over(TOPOLOGY, "name").alias(_OCCURRENCE)
    )


def _once(operators: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """The first of each key; none whose key is null."""
    keyed = operators.drop_nulls(key).unique([TOPOLOGY, *key], keep="first", maintain_order=True)
    return keyed.select(TOPOLOGY, *key, "node")
