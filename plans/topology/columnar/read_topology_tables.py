"""Given tables (Arrow, Delta, Parquet) of topologies and transformations as the topology layer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from plans.columnar.frames import empty, from_arrow
from plans.errors import SchemaError
from plans.tables import JOB_SETTINGS
from plans.tables.column_types import TOPOLOGY
from plans.topology.columnar.find_topology_files import local_path
from plans.topology.columnar.given_columns import GivenColumns, given_columns
from plans.topology.columnar.lines_of_tables import lines_of_tables
from plans.topology.columnar.normalized_tables import (
    normalized_topologies,
    normalized_transformations,
    to_nullable_arrow,
)
from plans.topology.columnar.rejected_rows import Refused, rejected_rows
from plans.topology.columnar.row_errors import no_topology, row_errors
from plans.topology.columnar.settings_of_topologies import settings_of_topologies
from plans.topology.columnar.sound_topologies import sound_topologies
from plans.topology.columnar.topology_tables import TopologyTables
from plans.topology.error_kinds import INPUT_STAGE
from plans.topology.input_errors import missing_table, unusable_path
from plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from plans.topology.parse_lines import parse_lines, shown
from plans.topology.parsed_batches import SETTINGS

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow import dataset

_BATCHES_AHEAD = 2

_Refused = dict[int, tuple[str, list[Any]]]
"""Position in topologies to stage and errors."""

_ACCEPTED = pa.schema([("ordinal", pa.int64()), ("fingerprint", pa.string()), ("settings", SETTINGS)])


def holds_tables(path: str) -> bool:
    """Whether a path is a folder of tables."""
    table = Path(local_path(path)) / "transformations"
    return _is_delta(table) or any(table.glob("*.parquet"))


def read_topology_folder(path: str, job_defaults: JobDefaults = NO_DEFAULTS) -> TopologyTables:
    """`read_topology_tables` of the tables `topologies` and `transformations` in a folder, Delta or Parquet.

    As joins.read_topology_tables; but columns that are not the declared ones are an InputError.
    """
    folder = Path(local_path(path))
    topologies, transformations = _load(folder / "topologies"), _load(folder / "transformations")
    try:
        return _read_columns(topologies, transformations, job_defaults)
    except SchemaError as error:
        raise unusable_path(path, error.message) from None


def read_topology_tables(
    topologies: pa.Table, transformations: pa.Table, job_defaults: JobDefaults = NO_DEFAULTS
) -> TopologyTables:
    """Validated tables out of `topologies` and `transformations`.

    As joins.read_topology_tables: columns are looked at by expressions, and only topologies that
    look suspicious go through the validation of files.
    """
    given, rows = (given_columns(table.schema, [table]) for table in (topologies, transformations))
    return _read_columns(given, rows, job_defaults)


def _read_columns(
    topologies: GivenColumns, transformations: GivenColumns, job_defaults: JobDefaults
) -> TopologyTables:
    """`read_topology_tables`; what is given is emptied."""
    given = normalized_topologies(topologies, job_defaults)
    rows = normalized_transformations(transformations)
    ids, names = given[TOPOLOGY].to_list(), given["name"].to_list()
    wrong = row_errors(ids, names)
    sound = sound_topologies(given, rows, wrong)
    settings, refused = _settled(given, rows, sound)
    suspicious = sorted(set(range(len(ids))).difference(wrong, sound["position"]))
    if suspicious:
        explained, refused_too = _explained(given, rows, suspicious)
        settings, refused = pl.concat([settings, explained]).sort("position"), refused | refused_too
    refused |= {position: (INPUT_STAGE, [error]) for position, error in wrong.items()}
    known = set(ids)
    orphans = no_topology(i for i in rows[TOPOLOGY].unique(maintain_order=True) if i not in known)
    kept = _at(given, settings["position"]).with_columns(settings["fingerprint"])
    files, lines = given["source_file"].to_list(), given["source_line"].to_list()
    return TopologyTables(
        topologies=kept,
        transformations=rows.filter(pl.col(TOPOLOGY).is_in(kept[TOPOLOGY].implode()))
        if refused or orphans
        else rows,
        stream_nodes=empty("stream_nodes"),
        stream_edges=empty("stream_edges"),
        job_settings=settings.select(JOB_SETTINGS.names),
        rejected=rejected_rows(
            [
                *(Refused(names[p], files[p], lines[p], *refused[p]) for p in sorted(refused)),
                *(Refused(None, None, None, INPUT_STAGE, [error]) for error in orphans),
            ]
        ),
        inputs=len(ids) + len(orphans),
    )


def _settled(given: pl.DataFrame, rows: pl.DataFrame, sound: pl.DataFrame) -> tuple[pl.DataFrame, _Refused]:
    """Position, fingerprint and JOB_SETTINGS of sound topologies; stage and errors of others by position."""
    settings, refusals = settings_of_topologies(_at(given, sound["position"]), rows)
    refused = {
        position: (stage, list(map(shown, errors)))
        for place, position in enumerate(sound["position"])
        if place in refusals
        for stage, errors in [refusals[place]]
    }
    taken = ~sound["position"].is_in(list(refused))
    return sound.filter(taken).hstack(settings), refused


def _at(given: pl.DataFrame, positions: pl.Series) -> pl.DataFrame:
    """The rows at `positions`, which ascend."""
    return given if len(positions) == len(given) else given[positions]


def _explained(
    given: pl.DataFrame, rows: pl.DataFrame, suspicious: list[int]
) -> tuple[pl.DataFrame, _Refused]:
    """As _settled, of topologies that may be wrong, through the same validation as lines of a file."""
    looked_at = given[suspicious]
    of_them = rows.filter(pl.col(TOPOLOGY).is_in(looked_at[TOPOLOGY].implode()))
    lines = lines_of_tables(
        to_nullable_arrow(looked_at, "topologies"), to_nullable_arrow(of_them, "transformations")
    )
    batches = []
    refused = {}
    for batch in parse_lines(lines):
        batches.append(batch.select(_ACCEPTED.names).filter(batch["form"].is_valid()))
        bad = batch.select(["ordinal", "error_stage", "errors"]).filter(batch["error_stage"].is_valid())
        for row in bad.to_pylist():
            refused[suspicious[row["ordinal"]]] = (row["error_stage"], row["errors"])
    accepted = pa.Table.from_batches(batches, _ACCEPTED)
    settings = from_arrow(pa.Table.from_struct_array(accepted["settings"]))
    found = from_arrow(accepted.select(["ordinal", "fingerprint"]))
    positions = pl.Series("position", suspicious, pl.get_index_type())[found["ordinal"]]
    of_them = given[positions].select(positions, found["fingerprint"], TOPOLOGY)
    return of_them.hstack(settings), refused


def _is_delta(table: Path) -> bool:
    return any((table / "_delta_log").glob("*.json")) or (table / "_delta_log" / "_last_checkpoint").exists()


def _load(table: Path) -> GivenColumns:
    """All rows of a Delta or Parquet table; Delta's deletion vectors and renamed columns are minded."""
    # Only folders of tables need these, and they take long to import.
    from pyarrow import dataset

    try:
        if not _is_delta(table):
            files = dataset.dataset(table, format="parquet", partitioning="hive")
            return _columns_of(files)
        from deltalake import DeltaTable

        delta = DeltaTable(table)
        plain = _plain_files(table, delta)
        if plain is not None:
            return _columns_of(dataset.dataset(plain, pa.schema(delta.schema()), format="parquet"))
        reader = pa.RecordBatchReader.from_stream(delta.scan())
        return given_columns(reader.schema, reader)
    except Exception as error:
        raise missing_table(str(table), str(error).splitlines()[0][:300]) from None


def _columns_of(files: "dataset.Dataset") -> GivenColumns:
    reader = files.scanner(batch_readahead=_BATCHES_AHEAD, fragment_readahead=1).to_reader()
    found = given_columns(reader.schema, reader)
    pa.default_memory_pool().release_unused()
    return found


def _plain_files(table: Path, delta: "DeltaTable") -> list[str] | None:
    """The files of a Delta table whose rows are just what is in them; None if there is more to mind.

    Arrow reads them in half the memory that delta-rs takes for it.
    """
    if delta.protocol().min_reader_version > 1 or delta.metadata().partition_columns:
        return None
    actions = pa.RecordBatchReader.from_stream(delta.get_add_actions()).read_all()
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    if not paths or any("://" in path for path in paths):
        return None
    return [str(table / path) for path in paths]
