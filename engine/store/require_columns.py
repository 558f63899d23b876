"""Whether the tables of a store have the columns that this version of Penstock writes and reads."""

from collections.abc import Iterable

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.delta_rs_table import delta_rs_schema, open_log_tail, open_table
from penstock.engine.store.is_local import table_path
from penstock.operators.connectors.delta.table_columns import WRITABLE_FEATURES, reasons_against
from penstock.plans.errors import StoreError


def require_columns_to_write(store: str, tables: Iterable[str]) -> None:
    """StoreError if a table that is there has other columns, or other types, than those declared.

    Tables that cannot be opened are passed over; see set_aside_unreadable.
    """
    differing = []
    for table in tables:
        stored, declared = _stored(store, table), _declared(table)
        if stored is not None and stored != declared:
            differing.append(f"table {table}: {_difference(stored, declared)}")
    if differing:
        raise StoreError(
            f"cannot write to {store}: another version of Penstock has written it; {'; '.join(differing)}",
            "plan into a new folder; penstock show and penstock export still read this store",
        )


_WRITABLE_FEATURES = WRITABLE_FEATURES - {"columnMapping", "deletionVectors"}
"""Delta's writer features of tables that a store may have: its files have the columns' own names."""


def features_against_writes(table: DeltaTable) -> list[str]:
    """Features, constraints and properties that somebody gave a table, and that a write would break."""
    return reasons_against(table, "overwrite", _WRITABLE_FEATURES)


def require_features_to_write(store: str, tables: Iterable[str]) -> None:
    """StoreError if somebody gave a table a feature, constraint or property that a write would break.

    Tables that cannot be opened are passed over; see set_aside_unreadable.
    """
    refused = []
    for table in tables:
        path = table_path(store, table)
        tail = open_log_tail(path)
        if tail is not None and tail.takes_appends:
            continue
        try:
            opened = open_table(path)
        except (DeltaError, OSError):
            continue
        reasons = [] if opened is None else features_against_writes(opened)
        if reasons:
            refused.append(f"table {table} has {', '.join(reasons)}")
    if refused:
        raise StoreError(
            f"cannot write to {store}: {'; '.join(refused)}",
            "undo these changes (in Spark, ALTER TABLE … DROP FEATURE or UNSET TBLPROPERTIES), or plan into "
            "a new folder; penstock show and penstock export still read this store",
        )


def require_columns_to_read(store: str, tables: Iterable[str]) -> None:
    """StoreError if a table lacks columns that are declared, or has them with other types."""
    lacking = []
    for table in tables:
        stored, declared = _stored(store, table), _declared(table)
        if stored is not None and not declared.items() <= stored.items():
            lacking.append(f"table {table}: {_difference(stored, declared)}")
    if lacking:
        raise StoreError(
            f"cannot read {store}: another version of Penstock has written it; {'; '.join(lacking)}",
            "read other tables only, or plan the input again into a new folder",
        )


def _stored(store: str, table: str) -> dict[str, str] | None:
    tail = open_log_tail(table_path(store, table))
    if tail is not None:
        return tail.columns
    try:
        opened = open_table(table_path(store, table))
    except (DeltaError, OSError) as error:
        if refused := machine_error_in_text(error, f"reading {store}"):
            raise refused from error
        return None
    return None if opened is None else _columns(opened.schema())


def _declared(table: str) -> dict[str, str]:
    return _columns(delta_rs_schema(table))


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _difference(stored: dict[str, str], declared: dict[str, str]) -> str:
    lacks = sorted(set(declared) - set(stored))
    has = sorted(set(stored) - set(declared))
    differ = sorted(name for name in set(stored) & set(declared) if stored[name] != declared[name])
    parts = (("it lacks", lacks), ("it also has", has), ("of another type", differ))
    return ", ".join(f"{said} {', '.join(names)}" for said, names in parts if names)
