"""Generated topologies as Delta tables in a local folder, which are there all at once."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction

from penstock.engine.machine.replace_file import sync_folder
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import delta_schema
from penstock.engine.store.write_file import add_action, make_log_durable, write_file
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Fleet, topologies_table, transformations_table
from penstock.plans.tables import TABLES

_PARTS_OF_A_FILE = 16


@without_pandas()
def write_topology_tables(fleet: Fleet, directory: str) -> None:
    """Write the tables `topologies` and `transformations` of a fleet into a new folder.

    They are written beside it, synced and renamed. Raises MachineError and StoreError.
    """
    target = local_folder(directory)
    parent = os.path.dirname(target)
    with store_errors(directory, "writing"):
        os.makedirs(parent, exist_ok=True)
        unfinished = tempfile.mkdtemp(dir=parent, prefix=f".{os.path.basename(target)}.")
        try:
            os.chmod(unfinished, 0o777 & ~_umask())
            for table in ("topologies", "transformations"):
                _write_table(fleet, os.path.join(unfinished, table), table)
            os.rename(unfinished, target)
            sync_folder(parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def _write_table(fleet: Fleet, folder: str, table: str) -> None:
    schema = TABLES[table]
    delta_table = DeltaTable.create(folder, Schema.from_json(json.dumps(delta_schema(schema))), mode="error")
    plain = pa.schema([field.remove_metadata() for field in schema])
    actions: list[AddAction | RemoveAction] = []
    units, step = _parts(fleet, table)
    for start in range(0, units, step * _PARTS_OF_A_FILE):
        rows = 0

        def parts(start: int = start) -> Iterator[pa.Table]:
            nonlocal rows
            for first in range(start, min(start + step * _PARTS_OF_A_FILE, units), step):
                part = _part(fleet, table, first, min(first + step, units))
                rows += len(part)
                yield part.cast(plain)

        file = write_file(folder, "", parts(), plain)
        actions.append(add_action(folder, file, rows, {}))
    delta_table.create_write_transaction(actions, "append", delta_table.schema())
    make_log_durable(folder, since=0)


def _parts(fleet: Fleet, table: str) -> tuple[int, int]:
    """How many units a table has, and how many of them are made at a time."""
    if table == "topologies":
        return fleet.spec.topologies, ROWS_OF_A_PART
    return fleet.units, fleet.units_of_a_part


def _part(fleet: Fleet, table: str, start: int, stop: int) -> pa.Table:
    return (topologies_table if table == "topologies" else transformations_table)(fleet, start, stop)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
