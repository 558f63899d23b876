"""Given tables (Arrow, Delta, Parquet) of topologies and transformations as the topology layer."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.columnar.frames import TOPOLOGY, empty, from_arrow
from plans.columnar.topology.find_topology_files import local_path
from plans.columnar.topology.lines_of_tables import lines_of_tables
from plans.columnar.topology.normalized_tables import normalized_topologies, normalized_transformations
from plans.columnar.topology.rejected_rows import Refused, rejected_rows
from plans.columnar.topology.row_errors import no_topology, row_errors
from plans.columnar.topology.topology_tables import TopologyTables
from plans.topology.error_kinds import INPUT_STAGE
from plans.topology.input_errors import missing_table
from plans.topology.parse_lines import SETTINGS_ROWS, parse_lines

_ACCEPTED = pa.schema([("ordinal", pa.int64()), ("fingerprint", pa.string()), ("settings", SETTINGS_ROWS)])


def holds_tables(path: str) -> bool:
    """Whether a path is a folder of tables."""
    table = Path(local_path(path)) / "transformations"
    return _is_delta(table) or any(table.glob("*.parquet"))


def read_topology_folder(path: str) -> TopologyTables:
    """`read_topology_tables` of the tables `topologies` and `transformations` in a folder, Delta or Parquet.

    As plans.topology.read_topology_tables.
    """
    folder = Path(local_path(path))
    return read_topology_tables(_load(folder / "topologies"), _load(folder / "transformations"))


def read_topology_tables(topologies: pa.Table, transformations: pa.Table) -> TopologyTables:
    """Validated tables out of `topologies` and `transformations`.

    As plans.topology.read_topology_tables; but here every topology goes through the validation of files.
    """
    given, rows = normalized_topologies(topologies), normalized_transformations(transformations)
    ids, names = given[TOPOLOGY].to_pylist(), given["name"].to_pylist()
    wrong = row_errors(ids, names)
    refused: dict[int, tuple[str, list[Any]]] = {
        position: (INPUT_STAGE, [error]) for position, error in wrong.items()
    }
    batches = []
    for batch in parse_lines(lines_of_tables(given, rows, wrong)):
        batches.append(batch.select(_ACCEPTED.names).filter(batch["form"].is_valid()))
        bad = batch.select(["ordinal", "error_stage", "errors"]).filter(batch["error_stage"].is_valid())
        refused |= {row["ordinal"]: (row["error_stage"], row["errors"]) for row in bad.to_pylist()}
    accepted = pa.Table.from_batches(batches, _ACCEPTED)
    kept = given.take(accepted["ordinal"])
    place = kept.schema.get_field_index("fingerprint")
    settings = pa.Table.from_struct_array(accepted["settings"])
    files, lines = given["source_file"].to_pylist(), given["source_line"].to_pylist()
    known = set(ids)
    orphans = no_topology(i for i in pc.unique(rows[TOPOLOGY]).to_pylist() if i not in known)
    return TopologyTables(
        topologies=from_arrow(kept.set_column(place, "fingerprint", accepted["fingerprint"])),
        transformations=from_arrow(rows.filter(pc.is_in(rows[TOPOLOGY], kept[TOPOLOGY]))),
        stream_nodes=empty("stream_nodes"),
        stream_edges=empty("stream_edges"),
        job_settings=from_arrow(settings.add_column(0, TOPOLOGY, kept[TOPOLOGY])),
        rejected=rejected_rows(
            [
                *(Refused(names[p], files[p], lines[p], *refused[p]) for p in sorted(refused)),
                *(Refused(None, None, None, INPUT_STAGE, [error]) for error in orphans),
            ]
        ),
        inputs=len(ids) + len(orphans),
    )


def _is_delta(table: Path) -> bool:
    return any((table / "_delta_log").glob("*.json")) or (table / "_delta_log" / "_last_checkpoint").exists()


def _load(table: Path) -> pa.Table:
    """All rows of a Delta or Parquet table; Delta's deletion vectors and renamed columns are minded."""
    # Only folders of tables need these, and they take long to import.
    from pyarrow import dataset

    try:
        if _is_delta(table):
            from deltalake import DeltaTable

            return pa.table(DeltaTable(table).scan())
        return dataset.dataset(table, format="parquet", partitioning="hive").to_table()
    except Exception as error:
        raise missing_table(str(table), str(error).splitlines()[0][:300]) from None
