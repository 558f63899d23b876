"""Names in frames of Spark as topologies spell them: to Spark, their case says nothing."""

from collections.abc import Collection, Sequence
from typing import Any

from penstock.plans.errors import SchemaError
from penstock.plans.printable import first_and_count
from penstock.plans.topology.operator_rules import TRANSFORMATION_KEYS
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import TopologyForm

OPERATORS = TopologyForm.TRANSFORMATIONS.value


def with_spelled_columns(frame: Any) -> Any:
    """`frame`, of a topology in each row, with its columns and the fields of transformations as keys.

    SchemaError names the fields that no transformation has.
    """
    if len({name.lower() for name in frame.columns}) < len(frame.columns):
        return frame
    if _is_case_sensitive(frame):
        spelled, fields = list(frame.columns), tuple[str, ...]()
    else:
        spelled, fields = spelled_names(frame.columns, TOPOLOGY_KEYS), TRANSFORMATION_KEYS
    columns, changed = [], spelled != frame.columns
    for name, field in zip(spelled, frame.schema, strict=True):
        column, kind = frame["`" + field.name.replace("`", "``") + "`"], field.dataType
        if name == OPERATORS:
            kind = _with_spelled_fields(kind, fields)
            _require_no_others(kind)
        if kind != field.dataType:
            column, changed = column.cast(kind), True
        columns.append(column.alias(name))
    return frame.select(*columns) if changed else frame


def spelled_names(names: Sequence[str], known: Collection[str]) -> list[str]:
    """`names`, each as `known` spells it; one that is not known, or that several would be, stays."""
    spelling = {name.lower(): name for name in known}
    spelled = [name if name in known else spelling.get(name.lower(), name) for name in names]
    return spelled if len(set(spelled)) == len(set(names)) else list(names)


def column_named(frame: Any, name: str) -> str | None:
    """The column of a frame of Spark that its session finds by `name`; None if there is none, or several."""
    columns = list(map(str, frame.columns))
    if name in columns:
        return name
    others = [column for column in columns if column.lower() == name.lower()]
    return others[0] if len(others) == 1 and not _is_case_sensitive(frame) else None


def _is_case_sensitive(frame: Any) -> bool:
    return bool(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true")


def _with_spelled_fields(kind: Any, keys: Collection[str]) -> Any:
    """The type of a list of structs, with the names of their fields spelled as `keys`."""
    fields = getattr(getattr(kind, "elementType", None), "fields", None)
    if fields is None:
        return kind
    names = spelled_names([field.name for field in fields], keys)
    from pyspark.sql.types import ArrayType, StructField, StructType

    spelled = [
        StructField(name, field.dataType, field.nullable) for name, field in zip(names, fields, strict=True)
    ]
    return ArrayType(StructType(spelled), kind.containsNull) if names != kind.elementType.names else kind


def _require_no_others(kind: Any) -> None:
    fields = getattr(getattr(kind, "elementType", None), "fields", None) or ()
    others = [repr(field.name) for field in fields if field.name not in TRANSFORMATION_KEYS]
    if others:
        raise SchemaError(
            f"{OPERATORS}: found fields that no transformation has: {first_and_count(others)}; "
            f"allowed {', '.join(TRANSFORMATION_KEYS)}",
            "leave them out of the structs",
        )
