"""Check before the work starts that a store can be written to a path."""

import os
import tempfile
from collections.abc import Iterable

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error, machine_error_in_text, takes_no_files
from penstock.engine.machine.replace_file import NO_HARD_LINKS, sync_descriptor, sync_folder
from penstock.engine.store.damage import repair_if_damaged
from penstock.engine.store.delta_rs_table import delta_rs_schema, open_log_tail, open_table
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import AT_VERSION, is_local, local_folder, table_path
from penstock.engine.store.plan_versions import is_store, read_listed, require_not_lost
from penstock.engine.store.store_tables import WRITE_ID
from penstock.engine.store.version_notes import MANIFEST
from penstock.operators.connectors.delta_columns import WRITABLE_FEATURES, reasons_against
from penstock.plans.errors import MachineError, StoreError
from penstock.plans.tables import TABLES

# Check that the tables of a store have the columns that this version of Penstock writes and reads.


def _require_columns_to_write(store: str, tables: Iterable[str]) -> None:
    """Raise StoreError if an existing table has other columns, or other types, than those declared.

    Tables that cannot be opened are skipped; see set_aside_unreadable.
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
"""Delta's writer features that tables of a store may have: its files have the columns' own names."""


def features_against_writes(table: DeltaTable) -> list[str]:
    """Return features, constraints and properties, added by others, that a write would violate."""
    return reasons_against(table, "overwrite", _WRITABLE_FEATURES)


def _require_features_to_write(store: str, tables: Iterable[str]) -> None:
    """Raise StoreError if a table has a feature, constraint or property that a write would violate.

    Tables that cannot be opened are skipped; see set_aside_unreadable.
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
    """Raise StoreError if a table lacks declared columns, or has them with other types."""
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
    return ", ".join(f"{relation} {', '.join(names)}" for relation, names in parts if names)


_LEFT_BY_FILE_SYSTEMS = ("lost+found",)
_MOST_NAMES = 5


def require_target(store: str) -> list[str]:
    """Raise StoreError unless `store` is a path that Delta can have, and new, an empty folder, or a store.

    The store must have tables with the columns of this version of Penstock, without Delta features that a
    write would violate, and a manifest that can be read or restored. Returns sentences about repairs, for
    users. Raises MachineError if the folder cannot be created or written to. Only local file systems are
    checked.
    """
    table_path(store, MANIFEST)
    require_no_version(store)
    if not is_local(store):
        return []
    folder = local_folder(store)
    try:
        existing = _existing(folder)
        if not os.path.isdir(existing):
            obstacle = "a link to nothing" if os.path.islink(existing) else "a file"
            where = "" if existing == folder else f"{existing} is "
            raise StoreError(f"cannot write a store to {store}: {where or 'it is '}{obstacle}, not a folder")
        repaired = repair_if_damaged(store)
        if existing == folder:
            _require_empty_or_store(store, folder)
        _require_new_files(existing, store)
        _require_links_and_sync(existing, store)
        return repaired
    except OSError as error:
        raise machine_error(error, f"writing {store}") or MachineError(f"writing {store}: {error}") from error


def require_no_version(store: str) -> None:
    """Raise StoreError for STORE@VERSION, which commands that read take for a version.

    Such a name is valid if a store or another folder of results has it already.
    """
    named = AT_VERSION.fullmatch(store.rstrip("/"))
    if named is None:
        return
    folder = local_folder(store) if is_local(store) else ""
    if os.path.isdir(folder) and os.listdir(folder):
        return
    raise StoreError(
        f"cannot write to {store}: it names version {named['version']} of {named['store']}, and versions "
        "never change",
        f"write to {named['store']}, which adds a version",
    )


def _require_new_files(folder: str, store: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError as error:
        raise takes_no_files(folder, f"writing {store}") from error


def _require_links_and_sync(folder: str, store: str) -> None:
    """Raise MachineError unless `folder` supports hard links, which commits need, and fsync."""
    with tempfile.NamedTemporaryFile(prefix=_PROBE, dir=folder) as file:
        second = f"{file.name}.link"
        try:
            os.link(file.name, second)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            raise MachineError(
                f"writing {store}: the file system of {folder} has no hard links "
                f"({os.strerror(error.errno)}), which commits of Delta tables need",
                "choose a folder of a local disk",
            ) from error
        os.unlink(second)
        sync_descriptor(file.fileno(), folder)
    sync_folder(folder)


_PROBE = ".penstock-"
"""Prefix of temporary files that test the abilities of a folder."""


def _existing(path: str) -> str:
    """Return the path itself, or its nearest parent that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _require_empty_or_store(store: str, folder: str) -> None:
    names = sorted(set(os.listdir(folder)) - set(_LEFT_BY_FILE_SYSTEMS))
    names = [name for name in names if not name.startswith(_PROBE)]
    if MANIFEST in names:
        delta = DeltaRsTables(store)
        require_not_lost(delta)
        if is_store(delta):
            read_listed(delta)
        _require_columns_to_write(store, TABLES)
        _require_features_to_write(store, (*TABLES, MANIFEST))
        return
    others = [name for name in names if name not in TABLES or not _is_table_of_store(folder, name)]
    if others:
        more = f" and {len(others) - _MOST_NAMES:,} more" if len(others) > _MOST_NAMES else ""
        raise StoreError(
            f"cannot write a store to {store}: the folder is neither empty nor a store; "
            f"it contains {', '.join(map(repr, others[:_MOST_NAMES]))}{more}",
            "name a new folder, an empty one, or a store that penstock has written",
        )
    require_not_lost(DeltaRsTables(store))


def _is_table_of_store(folder: str, name: str) -> bool:
    """Return whether this is a table of a store, perhaps an unfinished one."""
    path = os.path.join(folder, name)
    try:
        fields = DeltaTable(path).schema().fields
    except DeltaError:
        return os.path.isdir(path) and set(os.listdir(path)) <= {"_delta_log"}
    return any(field.name == WRITE_ID for field in fields)
