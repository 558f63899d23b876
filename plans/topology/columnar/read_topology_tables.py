"""Given tables (Arrow, Delta, Parquet) of topologies and transformations as the topology layer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.error_kinds import INPUT_STAGE
from penstock.plans.errors import SchemaError
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.frames.polars_groups import ints
from penstock.plans.tables import JOB_SETTINGS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.canonical_texts import canonical_headers
from penstock.plans.topology.columnar.digest_blocks import digest_blocks
from penstock.plans.topology.columnar.find_topology_files import local_path
from penstock.plans.topology.columnar.lines_of_tables import lines_of_tables, topologies_without_rows
from penstock.plans.topology.columnar.normalized_tables import (
    GivenColumns,
    given_columns,
    normalized_topologies,
    normalized_transformations,
    to_nullable_arrow,
)
from penstock.plans.topology.columnar.open_given_table import GivenTable, is_delta, open_given_table
from penstock.plans.topology.columnar.rejected_rows import Refused, no_topology, rejected_rows, row_errors
from penstock.plans.topology.columnar.rows_in_parts import divide_by_topology, rows_in_parts
from penstock.plans.topology.columnar.settings_of_topologies import settings_of_topologies
from penstock.plans.topology.columnar.topology_tables import TopologyTables, topology_holds
from penstock.plans.topology.columnar.wrong_rows_of_large import wrong_rows_of_large
from penstock.plans.topology.fingerprint import fingerprint
from penstock.plans.topology.input_errors import tables_beside_others, unusable_path
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.parse_lines import parse_lines, shown
from penstock.plans.topology.parsed_batches import SETTINGS
from penstock.plans.topology.require_given_columns import require_given_columns
from penstock.plans.topology.validate_wrong_rows import LARGE
from penstock.plans.vocabulary import TopologyForm

_Refused = dict[int, tuple[str, list[Any]]]
"""Position in topologies to stage and errors."""

_MOST_REFUSED_OF_A_PART = 100_000

_ACCEPTED = pa.schema([("ordinal", pa.int64()), ("fingerprint", pa.string()), ("settings", SETTINGS)])


def holds_tables(path: str) -> bool:
    """Whether a path is a folder of tables."""
    table = Path(local_path(path)) / "transformations"
    return is_delta(table) or any(table.glob("*.parquet"))


def read_topology_folder(path: str, job_defaults: JobDefaults = NO_DEFAULTS) -> TopologyTables:
    """`read_topology_tables` of the tables `topologies` and `transformations` in a folder, Delta or Parquet.

    As joins.read_topology_tables; but columns that are not the declared ones are an InputError.
    """
    topologies, transformations = map(_load, _open(path))
    try:
        return _read_columns(topologies, transformations, job_defaults)
    except SchemaError as error:
        raise unusable_path(path, error.message) from None


def read_topology_folder_in_parts(
    paths: Sequence[str],
    rows_of_a_part: int,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Iterator[TopologyTables]:
    """read_topology_folder of the only one of `paths`, in parts of about that many transformations.

    Together the parts hold what read_topology_folder gives; there is one part at least. In memory are all
    rows of `topologies`, and the transformations of one part (see rows_in_parts). `before_block` is called
    before each batch is read; what it raises stops the reading.
    """
    if len(paths) > 1:
        raise tables_beside_others(next(filter(holds_tables, paths)))
    topologies, transformations = _open(paths[0])
    try:
        require_given_columns(transformations.types, "transformations")
        topology_rows = normalized_topologies(_load(topologies), job_defaults)
        division = divide_by_topology(
            topology_rows[TOPOLOGY].to_numpy(),
            (batch[TOPOLOGY] for batch in transformations.batches([TOPOLOGY], before_block)),
            rows_of_a_part,
        )
        orphans = division.without_topology
        parts = rows_in_parts(division, lambda: transformations.batches(None, before_block), TOPOLOGY)
        for part, batches in enumerate(parts):
            rows = given_columns(transformations.schema, batches)
            batches.clear()
            last = part + 1 == division.parts
            yield _validated(
                _at(topology_rows, pl.Series(division.positions(part))),
                normalized_transformations(rows),
                orphans[:_MOST_REFUSED_OF_A_PART] if last else [],
            )
    except SchemaError as error:
        raise unusable_path(paths[0], error.message) from None
    for first in range(_MOST_REFUSED_OF_A_PART, len(orphans), _MOST_REFUSED_OF_A_PART):
        yield _validated(
            topology_rows.clear(), empty("transformations"), orphans[first:][:_MOST_REFUSED_OF_A_PART]
        )


def read_topology_tables(
    topologies: pa.Table, transformations: pa.Table, job_defaults: JobDefaults = NO_DEFAULTS
) -> TopologyTables:
    """Validated tables out of `topologies` and `transformations`.

    As joins.read_topology_tables: expressions check the columns, and only suspicious topologies go through
    the validation of files.
    """
    topology_columns, transformation_columns = (
        given_columns(table.schema, [table]) for table in (topologies, transformations)
    )
    return _read_columns(topology_columns, transformation_columns, job_defaults)


def _open(path: str) -> tuple[GivenTable, GivenTable]:
    folder = Path(local_path(path))
    return open_given_table(folder / "topologies"), open_given_table(folder / "transformations")


def _load(table: GivenTable) -> GivenColumns:
    columns = given_columns(table.schema, table.batches())
    pa.default_memory_pool().release_unused()
    return columns


def _read_columns(
    topologies: GivenColumns, transformations: GivenColumns, job_defaults: JobDefaults
) -> TopologyTables:
    """`read_topology_tables`; what is given is emptied."""
    topology_rows = normalized_topologies(topologies, job_defaults)
    rows = normalized_transformations(transformations)
    known = set(topology_rows[TOPOLOGY])
    return _validated(
        topology_rows, rows, [i for i in rows[TOPOLOGY].unique(maintain_order=True) if i not in known]
    )


def _validated(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, without_topology: Iterable[int | None]
) -> TopologyTables:
    """`read_topology_tables` of normalized tables; `without_topology`: each topology_id that only
    transformations have.
    """
    ids, names = topology_rows[TOPOLOGY].to_list(), topology_rows["name"].to_list()
    wrong = row_errors(ids, names, topology_rows["form"].to_list())
    sound = sound_topologies(topology_rows, rows, wrong)
    settings, refused = _settled(topology_rows, rows, sound)
    suspicious = sorted(set(range(len(ids))).difference(wrong, sound["position"]))
    if suspicious:
        explained, refused_too = _explained(topology_rows, rows, suspicious)
        settings, refused = pl.concat([settings, explained]).sort("position"), refused | refused_too
    refused |= {position: (INPUT_STAGE, [error]) for position, error in wrong.items()}
    orphans = no_topology(without_topology)
    kept = _at(topology_rows, settings["position"]).with_columns(settings["fingerprint"])
    files, lines = topology_rows["source_file"].to_list(), topology_rows["source_line"].to_list()
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


def _settled(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, sound: pl.DataFrame
) -> tuple[pl.DataFrame, _Refused]:
    """Position, fingerprint and JOB_SETTINGS of sound topologies; stage and errors of others by position."""
    settings, refusals = settings_of_topologies(_at(topology_rows, sound["position"]), rows)
    refused = {
        position: (stage, list(map(shown, errors)))
        for place, position in enumerate(sound["position"])
        if place in refusals
        for stage, errors in [refusals[place]]
    }
    taken = ~sound["position"].is_in(list(refused))
    return sound.filter(taken).hstack(settings), refused


def _at(rows: pl.DataFrame, positions: pl.Series) -> pl.DataFrame:
    """The rows at `positions`, which ascend."""
    return rows if len(positions) == len(rows) else rows[positions]


def _explained(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, suspicious: list[int]
) -> tuple[pl.DataFrame, _Refused]:
    """As _settled, of topologies that may be wrong, through the same validation as lines of a file."""
    refused = _errors_of_large(topology_rows, rows, suspicious)
    rest = [position for position in suspicious if position not in refused]
    looked_at = topology_rows[rest]
    of_them = rows.filter(pl.col(TOPOLOGY).is_in(looked_at[TOPOLOGY].implode()))
    lines = lines_of_tables(
        to_nullable_arrow(looked_at, "topologies"), to_nullable_arrow(of_them, "transformations")
    )
    batches = []
    for batch in parse_lines(lines):
        batches.append(batch.select(_ACCEPTED.names).filter(batch["form"].is_valid()))
        refused |= {rest[ordinal]: errors for ordinal, errors in _refused_in(batch)}
    accepted = pa.Table.from_batches(batches, _ACCEPTED)
    settings = from_arrow(pa.Table.from_struct_array(accepted["settings"]))
    accepted_rows = from_arrow(accepted.select(["ordinal", "fingerprint"]))
    positions = pl.Series("position", rest, pl.get_index_type())[accepted_rows["ordinal"]]
    of_them = topology_rows[positions].select(positions, accepted_rows["fingerprint"], TOPOLOGY)
    return of_them.hstack(settings), refused


def _errors_of_large(topology_rows: pl.DataFrame, rows: pl.DataFrame, suspicious: list[int]) -> _Refused:
    """Stage and errors by position, of topologies so large that their whole lines may not fit in memory.

    Those that turn out to be right are not among them.
    """
    refused: _Refused = {}
    if len(rows) < LARGE:
        return refused
    sizes = rows.group_by(TOPOLOGY).len("rows").filter(pl.col("rows") >= LARGE)
    of_large = set(sizes[TOPOLOGY])
    ids = topology_rows[TOPOLOGY].to_list()
    large = [position for position in suspicious if ids[position] in of_large]
    texts = topologies_without_rows(to_nullable_arrow(topology_rows[large], "topologies"))
    for position, text in zip(large, texts, strict=True):
        refusal = wrong_rows_of_large(text, rows.filter(pl.col(TOPOLOGY) == ids[position]))
        if refusal is not None:
            refused[position] = refusal
    return refused


def _refused_in(batch: pa.RecordBatch) -> Iterator[tuple[int, tuple[str, list[Any]]]]:
    """The ordinals of refused lines, each with its stage and errors."""
    bad = batch.select(["ordinal", "error_stage", "errors"]).filter(batch["error_stage"].is_valid())
    for row in bad.to_pylist():
        yield row["ordinal"], (row["error_stage"], row["errors"])


# Which topologies of given tables are right in every row, and their fingerprints.


_IS_OF_TRANSFORMATIONS = (pl.col("form") == str(TopologyForm.TRANSFORMATIONS)).fill_null(False)


def sound_topologies(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, leave_out: Collection[int]
) -> pl.DataFrame:
    """(position, fingerprint): the rows of `topology_rows` that are right, with all their transformations.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; positions in `leave_out` are skipped, and
    only these may repeat a topology_id. Rows that are not returned may be wrong.
    """
    keys = rows.select(pl.col(TOPOLOGY, "id").fill_null(0))
    ids, numbers = ints(keys, TOPOLOGY), ints(keys, "id")
    of_topologies, order = runs(ids), None
    holds = of_topologies.numbers() + 1 == numbers
    if len(np.unique(ids[of_topologies.starts])) < len(of_topologies.starts) or not holds.all():
        order = np.lexsort((numbers, ids))
        ids = ids[order]
        of_topologies = runs(ids)
        holds = of_topologies.numbers() + 1 == numbers[order]
    starts = of_topologies.starts
    blocks = digest_blocks(rows, order, starts)
    right = np.array([digest != "" for digest in blocks.digests], bool)
    rows_hold = np.logical_and.reduceat(holds, starts) if len(starts) else holds
    blocks_hold = np.logical_and.reduceat(right, blocks.first) if len(starts) else right
    of_ids = pl.DataFrame({TOPOLOGY: ids[starts], "first": blocks.first, "end": blocks.end}).filter(
        pl.Series(values=rows_hold & blocks_hold)
    )
    left_out = pl.Series(sorted(leave_out), dtype=pl.UInt32)
    sound = (
        topology_rows.with_row_index("position")
        .filter(topology_holds() & _IS_OF_TRANSFORMATIONS & ~pl.col("position").is_in(left_out.implode()))
        .join(of_ids, on=TOPOLOGY)
        .sort("position")
    )
    fingerprints = [
        fingerprint(header, blocks.digests[first:end])
        for header, first, end in zip(canonical_headers(sound), sound["first"], sound["end"], strict=True)
    ]
    return sound.select("position", pl.Series("fingerprint", fingerprints, pl.String))
