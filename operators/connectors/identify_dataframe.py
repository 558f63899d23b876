"""What tells the rows of a Spark DataFrame from others: its plan, and what that reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from penstock.operators.files.identify_files import identify_files

_ALL_FIELDS = 2**31 - 1
_SPARK = "org.apache.spark.sql."
_DELTA = f"{_SPARK}delta."
_HADOOP_RELATION = f"{_SPARK}execution.datasources.HadoopFsRelation"  # or Delta's own kind of it
_OF_NOW = ("current_timestamp", "current_date", "localtimestamp", "now")
_FIXED = (f"{_SPARK}catalyst.plans.logical.Range", f"{_SPARK}catalyst.plans.logical.OneRowRelation$")


def identify_dataframe(dataframe: Any) -> str | None:
    """A digest of the analysed plan, with the rows, files or version of each table that it reads.

    None where something in it cannot be told: another kind of table (an RDD, JDBC), values that differ from
    run to run (`rand`, `current_timestamp`), a user's function, a session by Spark Connect.
    """
    try:
        plan = dataframe._jdf.queryExecution().analyzed()
        known = [plan.canonicalized().treeString(True, False, _ALL_FIELDS, False, False)]
        if not plan.deterministic() or "pythonUDF" in known[0] or "UDF(" in known[0]:
            return None
        if any(f"{name}(" in known[0] for name in _OF_NOW):
            return None
        for leaf in _leaves(plan):
            identity = _of_leaf(leaf)
            if identity is None:
                return None
            known.append(identity)
    except Exception:  # of py4j, Spark, or another form of plan: nobody can tell
        return None
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def _leaves(plan: Any) -> Iterator[Any]:
    """What a plan and its subqueries read: `collectLeaves` leaves those out, as expressions hold them."""
    subqueries = plan.subqueriesAll()
    for part in (plan, *(subqueries.apply(number) for number in range(subqueries.size()))):
        leaves = part.collectLeaves()
        yield from (leaves.apply(number) for number in range(leaves.size()))


def _of_leaf(leaf: Any) -> str | None:
    name = leaf.getClass().getName()
    if name in _FIXED:
        return str(name)
    if name == f"{_SPARK}catalyst.plans.logical.LocalRelation":
        return f"{leaf.data().size()} rows, {leaf.data().hashCode()}"
    if name != f"{_SPARK}execution.datasources.LogicalRelation":
        return None
    relation = leaf.relation()
    if _HADOOP_RELATION not in (relation.getClass().getName(), relation.getClass().getSuperclass().getName()):
        return None
    location = relation.location()
    kind = location.getClass().getName()
    if kind.startswith(_DELTA):
        snapshot = location.getSnapshot()
        return f"{snapshot.metadata().id()} {snapshot.version()}"
    return identify_files(sorted(map(_path, location.inputFiles())))


def _path(uri: str) -> str:
    """As the file systems of pyarrow take it."""
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
