"""Read given tables (Arrow, Delta, Parquet) of topologies and transformations into the topology layer."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.errors import INPUT_STAGE, SchemaError, TopologyError
from penstock.plans.frames.arrays import Ints, runs
from penstock.plans.frames.polars_frames import empty, from_arrow, ints
from penstock.plans.planners.plan_in_parts import side_by_side
from penstock.plans.tables import JOB_SETTINGS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.canonical_texts import (
    canonical_headers,
    canonical_rows,
    canonical_texts,
    config_text,
    transformation_columns,
)
from penstock.plans.topology.find_topology_files import local_path
from penstock.plans.topology.fingerprint import BLOCK, block_bounds, fingerprint, text_digests
from penstock.plans.topology.input_errors import unusable_path
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.job_settings import may_run_as_batch, settings_or_errors
from penstock.plans.topology.lines_of_tables import (
    LARGE,
    errors_of_rows,
    lines_of_tables,
    parsed_rows,
    topologies_without_rows,
    wrong_rows_of_large,
)
from penstock.plans.topology.normalized_tables import (
    GivenColumns,
    given_columns,
    normalized_topologies,
    normalized_transformations,
    require_given_columns,
    to_nullable_arrow,
)
from penstock.plans.topology.open_given_table import GivenTable, open_given_table
from penstock.plans.topology.parse_lines import SETTINGS, as_arrow, parse_lines, shown
from penstock.plans.topology.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.topologies_of_lines import (
    RejectedTopology,
    TopologyTables,
    no_topology,
    rejected_rows,
    row_errors,
    topology_holds,
)
from penstock.plans.topology.validate_transformations import reads_unbounded_source
from penstock.plans.vocabulary import Kind, TopologyForm

# Digests of blocks of transformations, from which fingerprints are computed.


_ROWS_AT_ONCE = 2**16


class Blocks(NamedTuple):
    """The bounds of each topology's blocks among all blocks, and the digest of each block.

    The digest is "" if a row of the block may be wrong.
    """

    first: Ints
    end: Ints
    digests: list[str]


def digest_blocks(rows: pl.DataFrame, order: Ints | None, starts: Ints) -> Blocks:
    """Digest the blocks of topologies that begin at `starts`, with rows in `order`, if given.

    In: TRANSFORMATIONS columns, defaults filled in. Only a few blocks' texts are in memory at a time: the
    first touch of new memory costs more than building the texts.
    """
    first, end, bounds = block_bounds(starts, np.diff(starts, append=len(rows)))
    cuts = np.unique(np.searchsorted(bounds, np.arange(0, len(rows) + _ROWS_AT_ONCE, _ROWS_AT_ONCE)))
    pieces = [bounds[a : b + 1] for a, b in pairwise(np.minimum(cuts, len(bounds) - 1)) if a < b]
    digests = side_by_side(partial(_digests, rows, order), pieces)
    return Blocks(first, end, [digest for piece_digests in digests for digest in piece_digests])


def _digests(rows: pl.DataFrame, order: Ints | None, bounds: Ints) -> list[str]:
    """Return the digests of the blocks between neighbouring bounds."""
    start, end = bounds[0], bounds[-1]
    taken = rows[order[start:end]] if order is not None else rows.slice(start, end - start)
    suspicious = suspicious_transformation(taken)
    right = taken if not suspicious.any() else taken.filter(~suspicious)
    columns = to_nullable_arrow(right, "transformations").combine_chunks()
    wrong = np.append(0, np.cumsum(suspicious.to_numpy()))[bounds - start]
    digests = text_digests(
        canonical_texts(columns.to_struct_array().combine_chunks()), bounds - start - wrong
    )
    return [digest if a == b else "" for digest, (a, b) in zip(digests, pairwise(wrong), strict=True)]


def digest_checked_blocks(rows: pl.DataFrame, size: int) -> list[str]:
    """Digest blocks of a topology with `size` transformations; "" for those with a wrong row.

    As digest_blocks of `rows` whose ids are in their places, but suspicious rows, such as sinks that expand,
    are checked one by one. Checking ends with the first wrong row.
    """
    digests = digest_blocks(rows, None, np.zeros(1, np.int64)).digests
    for place, digest in enumerate(digests):
        if digest == "":
            block = rows.slice(place * BLOCK, BLOCK)
            suspicious = suspicious_transformation(block)
            if errors_of_rows(block.filter(suspicious), size):
                break
            digests[place] = _digest_of_valid(block, suspicious)
    return digests


def _digest_of_valid(block: pl.DataFrame, suspicious: pl.Series) -> str:
    """The digest of valid rows, of which suspicious ones are digested as the parsed JSON of their line."""
    plain = to_nullable_arrow(block.filter(~suspicious), "transformations").combine_chunks()
    texts = [
        canonical_texts(plain.to_struct_array().combine_chunks()).cast(pa.large_string()),
        canonical_rows(transformation_columns(parsed_rows(block.filter(suspicious)))).cast(pa.large_string()),
    ]
    order = np.argsort(np.argsort(suspicious.to_numpy(), kind="stable"))
    (digest,) = text_digests(pa.concat_arrays(texts).take(pa.array(order)), np.array([0, len(block)]))
    return digest


# Options and job settings of topologies whose values and transformations are valid.


Refusals = dict[int, tuple[str, list[TopologyError]]]
"""Position among the topologies to stage and errors."""

_READ = ("config", "parallelism", "max_parallelism", "chaining")
_COMBINATION = ["config_text", *_READ[1:], "unbounded"]
_TOPOLOGIES_AT_ONCE = 65_536


_CONFIG_TEXT = config_text().list.join(",").alias("config_text")


def settings_of_topologies(topologies: pl.DataFrame, unbounded: pl.Series) -> tuple[pl.DataFrame, Refusals]:
    """Return JOB_SETTINGS of `topologies`, in their order, and the refusals of the others.

    `unbounded`: ids of topologies that may run as batch jobs, with an operator that reads an unbounded
    source. Settings are derived once per combination of the values they depend on, of which a fleet has few.
    The name only matters as the job's name, if the configuration sets none.
    """
    jobs = topologies.select(TOPOLOGY, "name", *_READ, _CONFIG_TEXT)
    jobs = jobs.with_columns(pl.col(TOPOLOGY).is_in(unbounded.implode()).alias("unbounded"))
    distinct = jobs.unique(_COMBINATION, keep="first", maintain_order=True).drop(TOPOLOGY, "name")
    settings: list[dict[str, Any]] = []
    places: list[int | None] = []
    refused: dict[int, tuple[str, list[TopologyError]]] = {}
    for row in distinct.drop("config_text").to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist():
        stage, errors, derived = settings_or_errors({**row, "name": ""}, row["unbounded"])
        places.append(None if derived is None else len(settings))
        if derived is not None:
            settings.append(as_arrow(derived))
        elif stage is not None:
            refused[len(places) - 1] = (stage, errors)
    numbered = distinct.select(_COMBINATION).with_columns(place=pl.Series(places, dtype=pl.Int64))
    job_combinations = jobs.select(_COMBINATION).join(
        numbered.with_row_index("combination"),
        on=_COMBINATION,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    taken = job_combinations["place"].is_not_null()
    accepted = jobs.select(TOPOLOGY, "name").filter(taken)
    setting_rows = from_arrow(pa.Table.from_struct_array(pa.chunked_array([pa.array(settings, SETTINGS)])))
    named = pl.when(pl.col("job_name") == "").then("name").otherwise("job_name").alias("job_name")
    job_settings = accepted.hstack(setting_rows[job_combinations["place"].drop_nulls()]).with_columns(named)
    others = job_combinations.select("combination").with_row_index("place").filter(~taken)
    return job_settings.select(JOB_SETTINGS.names), {
        p: refused[combination] for p, combination in others.rows()
    }


def _with_unbounded_source(topologies: pl.DataFrame, transformations: pl.DataFrame) -> pl.Series:
    """Return the topologies that may run as batch jobs and have an operator that reads an
    unbounded source.
    """
    jobs = topologies.select(TOPOLOGY, "config", _CONFIG_TEXT)
    configs = jobs.select("config_text", "config").unique("config_text")
    texts = []
    for row in configs.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist():
        if may_run_as_batch(dict(row["config"])):
            texts.append(row["config_text"])
    batch = jobs.filter(pl.col("config_text").is_in(texts)).select(TOPOLOGY)
    if batch.is_empty():
        return batch.to_series()
    shape = transformations.select(TOPOLOGY, "id", kinds_by_bounds(transformations), "inputs")
    legacy = shape.filter(pl.col("kind") == str(Kind.LEGACY_SOURCE)).join(batch, on=TOPOLOGY, how="semi")
    rows = shape.join(legacy, on=TOPOLOGY, how="semi").sort(TOPOLOGY, "id")
    starts = runs(ints(rows, TOPOLOGY)).starts.tolist()
    unbounded_topologies = [
        rows[TOPOLOGY][start]
        for start, end in pairwise([*starts, len(rows)])
        if reads_unbounded_source(_graph(rows.slice(start, end - start)))
    ]
    return pl.Series(TOPOLOGY, unbounded_topologies, pl.Int64)


def kinds_by_bounds(transformations: pl.DataFrame) -> pl.Expr:
    """As validate_transformations.kind_by_bounds."""
    kind, details = pl.col("kind"), pl.col("details")
    if transformations["details"].null_count() == len(transformations):
        return kind
    bounded = details.str.json_path_match("$.bounded")
    is_source = kind.is_in([str(Kind.SOURCE), str(Kind.LEGACY_SOURCE)])
    return (
        pl.when(is_source & (bounded == "true"))
        .then(pl.lit(str(Kind.SOURCE)))
        .when(is_source & (bounded == "false"))
        .then(pl.lit(str(Kind.LEGACY_SOURCE)))
        .otherwise(kind)
        .alias("kind")
    )


def _graph(rows: pl.DataFrame) -> Iterator[tuple[str, list[int]]]:
    for part in rows.iter_slices(_TOPOLOGIES_AT_ONCE):
        yield from zip(part["kind"].to_list(), part["inputs"].to_list(), strict=True)


# Rows of a given table of transformations, in any order, divided into parts of whole topologies.


_Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

_ROWS_SORTED_AT_ONCE = 2**18
_NONE = -1


class Division(NamedTuple):
    """The part of each topology, which contains all rows with its id in both tables."""

    ids: _Ints  #: of topologies, distinct, sorted
    part_of_id: _Ints
    order: _Ints  #: positions in `topologies`, part by part, ascending in each
    ends: _Ints  #: the end of each part in `order`
    in_runs: bool  #: whether the rows of each part are contiguous, part after part
    without_topology: list[int | None]  #: ids that only transformations have, in their order

    @property
    def parts(self) -> int:
        """The number of parts, at least one."""
        return len(self.ends)

    def positions(self, part: int) -> _Ints:
        """Return the rows of `topologies` that are in a part, ascending."""
        return self.order[self.ends[part - 1] if part else 0 : self.ends[part]]

    def parts_of(self, ids: pa.Array) -> _Ints:
        """Return the part of each row by its topology_id; -1 for an unknown topology."""
        places = _places(self.ids, ids)
        return np.where(places == _NONE, _NONE, np.append(self.part_of_id, _NONE)[places])


def divide_by_topology(topology_ids: _Ints, columns: Iterable[pa.Array], rows_of_a_part: int) -> Division:
    """Divide topologies into parts of about `rows_of_a_part` rows, counting a topology as a row, too.

    `topology_ids`: topology_id of each row of `topologies`; `columns`: topology_id of all transformations,
    batch by batch. Parts follow the order of the transformations if the rows of each topology are contiguous,
    else the order of `topologies`.
    """
    ids, first = np.unique(topology_ids, return_index=True)
    rows, runs = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    begins = np.full(len(ids), np.iinfo(np.int64).max)
    without: dict[int | None, None] = {}
    before, last = 0, _NONE
    for column in columns:
        if not len(column):
            continue
        places = _places(ids, column)
        without |= dict.fromkeys(column.filter(pa.array(places == _NONE)).unique().to_pylist())
        starts = _starts(places)
        run_places, lengths = places[starts], np.diff(starts, append=len(places))
        np.add.at(rows, run_places[run_places != _NONE], lengths[run_places != _NONE])
        # A run may continue in the next batch.
        new = (run_places != _NONE) & ~((starts == 0) & (run_places == last))
        np.add.at(runs, run_places[new], 1)
        np.minimum.at(begins, run_places[new], starts[new] + before)
        before, last = before + len(places), int(run_places[-1])
    in_runs = bool((runs <= 1).all())
    ordered = np.lexsort((first, begins)) if in_runs else np.argsort(first)
    sizes = rows[ordered] + 1
    cut = (np.cumsum(sizes) - sizes) // rows_of_a_part
    part_of_id = np.empty(len(ids), np.int64)
    part_of_id[ordered] = np.unique(cut, return_inverse=True)[1]
    part_of_given = part_of_id[np.searchsorted(ids, topology_ids)]
    parts = int(part_of_id.max()) + 1 if len(ids) else 1
    return Division(
        ids,
        part_of_id,
        np.argsort(part_of_given, kind="stable"),
        np.cumsum(np.bincount(part_of_given, minlength=parts)),
        in_runs or parts == 1,
        list(without),
    )


def rows_in_parts(
    division: Division, batches: Callable[[], Iterator[pa.RecordBatch]], key: str
) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of each part in turn, without unknown topologies; `key`: the name of their topology_id.

    Rows that are out of order are sorted by part on disk, in an unnamed file in the folder for temporary
    files. The caller may empty a list. Raises OSError.
    """
    pieces = _pieces_in_order if division.in_runs else _pieces_from_disk
    part = 0
    part_batches: list[pa.RecordBatch] = []
    for piece_part, piece in pieces(division, batches(), key):
        while part < piece_part:
            yield part_batches
            part_batches = []
            part += 1
        part_batches.append(piece)
        del piece
    while part < division.parts:
        yield part_batches
        part_batches = []
        part += 1


def _pieces_in_order(
    division: Division, batches: Iterator[pa.RecordBatch], key: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        parts = division.parts_of(batch[key])
        starts = _starts(parts)
        for start, end in zip(starts, [*starts[1:], len(batch)], strict=True):
            if parts[start] != _NONE:
                yield int(parts[start]), batch.slice(start, end - start)


def _pieces_from_disk(
    division: Division, batches: Iterator[pa.RecordBatch], key: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    with TemporaryFile() as file:
        places: list[list[int]] = [[] for _ in range(division.parts)]
        for rows in _many_rows(batches):
            parts = division.parts_of(rows[key])
            order = np.argsort(parts, kind="stable")
            parts = parts[order]
            ordered = rows.take(pa.array(order))
            starts = _starts(parts)
            for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
                if parts[start] != _NONE:
                    places[parts[start]].append(file.tell())
                    _write(file, ordered.slice(start, end - start))
            del rows, ordered
        for part, offsets in enumerate(places):
            for place in offsets:
                file.seek(place)
                for batch in pa.ipc.open_stream(file):
                    yield part, batch


def _write(file: BinaryIO, rows: pa.RecordBatch) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(file, rows.schema, options=options) as stream:
        stream.write_batch(rows)


def _many_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        pending.append(batch)
        if sum(map(len, pending)) >= _ROWS_SORTED_AT_ONCE:
            yield pa.concat_batches(pending)
            pending = []
    if pending:
        yield pa.concat_batches(pending)


def _places(ids: _Ints, column: pa.Array) -> _Ints:
    """Return the position of each value in `ids`, or -1."""
    values = column.cast(pa.int64())
    if not len(ids):
        return np.full(len(values), _NONE)
    row_ids = values.fill_null(0).to_numpy(zero_copy_only=False)
    starts = _starts(row_ids)
    run_places = np.minimum(np.searchsorted(ids, row_ids[starts]), len(ids) - 1)
    run_places[ids[run_places] != row_ids[starts]] = _NONE
    places = np.repeat(run_places, np.diff(starts, append=len(row_ids)))
    if values.null_count:
        places[values.is_null().to_numpy(zero_copy_only=False)] = _NONE
    return places


def _starts(values: _Ints) -> _Ints:
    """Return the starts of runs of equal values."""
    return (
        np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        if len(values)
        else np.zeros(0, np.int64)
    )


_RefusalsByPosition = dict[int, tuple[str, list[Any]]]
"""Position in topologies to stage and errors."""

_MOST_REFUSED_OF_A_PART = 100_000

_ACCEPTED = pa.schema([("ordinal", pa.int64()), ("fingerprint", pa.string()), ("settings", SETTINGS)])


def read_topology_folder(path: str, job_defaults: JobDefaults = NO_DEFAULTS) -> TopologyTables:
    """`read_topology_tables` for the tables `topologies` and `transformations` in a folder, Delta or Parquet.

    As read_topology_tables, but undeclared columns are an InputError.
    """
    topologies, transformations = map(_load, _open(path))
    try:
        return _read_columns(topologies, transformations, job_defaults)
    except SchemaError as error:
        raise unusable_path(path, error.message) from None


def read_topology_folder_in_parts(
    path: str,
    rows_of_a_part: int,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Iterator[TopologyTables]:
    """read_topology_folder in parts of about `rows_of_a_part` transformations.

    Together the parts equal the result of read_topology_folder; there is at least one part. All rows of
    `topologies` and the transformations of one part are in memory (see rows_in_parts). `before_block` is
    called before each batch is read; its exceptions stop the reading.
    """
    topologies, transformations = _open(path)
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
        raise unusable_path(path, error.message) from None
    for first in range(_MOST_REFUSED_OF_A_PART, len(orphans), _MOST_REFUSED_OF_A_PART):
        yield _validated(
            topology_rows.clear(), empty("transformations"), orphans[first:][:_MOST_REFUSED_OF_A_PART]
        )


def read_topology_tables(
    topologies: pa.Table, transformations: pa.Table, job_defaults: JobDefaults = NO_DEFAULTS
) -> TopologyTables:
    """Return validated tables for `topologies` and `transformations`.

    Both have columns of the tables of these names in `plans.tables`. Required are name, topology_id (xxhash64
    of the name), id, kind and inputs; others may be left out and get their defaults. Expressions check the
    columns, and only suspicious topologies go through the validation of files. A name on several rows is
    rejected on all of them (DuplicateTopologyName), transformations of no topology as NoTopology. Raises
    SchemaError for a column of another name or type.
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
    """`read_topology_tables`; the input is emptied."""
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
    settings, refused = _derive_settings(topology_rows, rows, sound)
    suspicious = sorted(set(range(len(ids))).difference(wrong, sound["position"]))
    if suspicious:
        explained, refused_too = _validate_as_lines(topology_rows, rows, suspicious)
        settings, refused = pl.concat([settings, explained]).sort("position"), refused | refused_too
    refused |= {position: (INPUT_STAGE, [error]) for position, error in wrong.items()}
    orphans = no_topology(without_topology)
    accepted = _at(topology_rows, settings["position"]).with_columns(settings["fingerprint"])
    files, lines = topology_rows["source_file"].to_list(), topology_rows["source_line"].to_list()
    return TopologyTables(
        topologies=accepted,
        transformations=rows.filter(pl.col(TOPOLOGY).is_in(accepted[TOPOLOGY].implode()))
        if refused or orphans
        else rows,
        stream_nodes=empty("stream_nodes"),
        stream_edges=empty("stream_edges"),
        job_settings=settings.select(JOB_SETTINGS.names),
        rejected=rejected_rows(
            [
                *(RejectedTopology(names[p], files[p], lines[p], *refused[p]) for p in sorted(refused)),
                *(RejectedTopology(None, None, None, INPUT_STAGE, [error]) for error in orphans),
            ]
        ),
        inputs=len(ids) + len(orphans),
    )


def _derive_settings(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, sound: pl.DataFrame
) -> tuple[pl.DataFrame, _RefusalsByPosition]:
    """Return position, fingerprint and JOB_SETTINGS of sound topologies; refusals of the others
    by position.
    """
    topologies = _at(topology_rows, sound["position"])
    settings, refusals = settings_of_topologies(topologies, _with_unbounded_source(topologies, rows))
    refused = {
        position: (stage, list(map(shown, errors)))
        for place, position in enumerate(sound["position"])
        if place in refusals
        for stage, errors in [refusals[place]]
    }
    taken = ~sound["position"].is_in(list(refused))
    return sound.filter(taken).hstack(settings), refused


def _at(rows: pl.DataFrame, positions: pl.Series) -> pl.DataFrame:
    """Return the rows at ascending `positions`.

    polars loses repeated keys of maps if it gathers from a single row.
    """
    return rows if len(positions) == len(rows) else rows[positions]


def _validate_as_lines(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, suspicious: list[int]
) -> tuple[pl.DataFrame, _RefusalsByPosition]:
    """As _derive_settings, for topologies that may be wrong, through the same validation as
    lines of a file.
    """
    refused = _errors_of_large(topology_rows, rows, suspicious)
    rest = [position for position in suspicious if position not in refused]
    suspects = _at(topology_rows, pl.Series(rest, dtype=pl.get_index_type()))
    suspect_rows = rows.filter(pl.col(TOPOLOGY).is_in(suspects[TOPOLOGY].implode()))
    lines = lines_of_tables(
        to_nullable_arrow(suspects, "topologies"), to_nullable_arrow(suspect_rows, "transformations")
    )
    batches = []
    for batch in parse_lines(lines):
        batches.append(batch.select(_ACCEPTED.names).filter(batch["form"].is_valid()))
        refused |= {rest[ordinal]: errors for ordinal, errors in _refused_in(batch)}
    accepted = pa.Table.from_batches(batches, _ACCEPTED)
    settings = from_arrow(pa.Table.from_struct_array(accepted["settings"]))
    accepted_rows = from_arrow(accepted.select(["ordinal", "fingerprint"]))
    positions = pl.Series("position", rest, pl.get_index_type())[accepted_rows["ordinal"]]
    suspect_rows = topology_rows[positions].select(positions, accepted_rows["fingerprint"], TOPOLOGY)
    return suspect_rows.hstack(settings), refused


def _errors_of_large(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, suspicious: list[int]
) -> _RefusalsByPosition:
    """Return the refusals of topologies so large that their whole lines may not fit in memory.

    Topologies that prove valid are not included.
    """
    refused: _RefusalsByPosition = {}
    if len(rows) < LARGE:
        return refused
    sizes = rows.group_by(TOPOLOGY).len("rows").filter(pl.col("rows") >= LARGE)
    large_ids = set(sizes[TOPOLOGY])
    ids = topology_rows[TOPOLOGY].to_list()
    large = [position for position in suspicious if ids[position] in large_ids]
    large_rows = _at(topology_rows, pl.Series(large, dtype=pl.get_index_type()))
    texts = topologies_without_rows(to_nullable_arrow(large_rows, "topologies"))
    for position, text in zip(large, texts, strict=True):
        refusal = wrong_rows_of_large(text, rows.filter(pl.col(TOPOLOGY) == ids[position]))
        if refusal is not None:
            refused[position] = refusal
    return refused


def _refused_in(batch: pa.RecordBatch) -> Iterator[tuple[int, tuple[str, list[Any]]]]:
    """Yield the ordinals of refused lines, each with its stage and errors."""
    bad = batch.select(["ordinal", "error_stage", "errors"]).filter(batch["error_stage"].is_valid())
    for row in bad.to_pylist():
        yield row["ordinal"], (row["error_stage"], row["errors"])


# Topologies of given tables that are valid in every row, and their fingerprints.


_IS_OF_TRANSFORMATIONS = (pl.col("form") == str(TopologyForm.TRANSFORMATIONS)).fill_null(False)


def sound_topologies(
    topology_rows: pl.DataFrame, rows: pl.DataFrame, leave_out: Collection[int]
) -> pl.DataFrame:
    """Return (position, fingerprint) of the rows of `topology_rows` that are valid with all transformations.

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
    valid_ids = pl.DataFrame({TOPOLOGY: ids[starts], "first": blocks.first, "end": blocks.end}).filter(
        pl.Series(values=rows_hold & blocks_hold)
    )
    left_out = pl.Series(sorted(leave_out), dtype=pl.UInt32)
    sound = (
        topology_rows.with_row_index("position")
        .filter(topology_holds() & _IS_OF_TRANSFORMATIONS & ~pl.col("position").is_in(left_out.implode()))
        .join(valid_ids, on=TOPOLOGY)
        .sort("position")
    )
    fingerprints = [
        fingerprint(header, blocks.digests[first:end])
        for header, first, end in zip(canonical_headers(sound), sound["first"], sound["end"], strict=True)
    ]
    return sound.select("position", pl.Series("fingerprint", fingerprints, pl.String))
