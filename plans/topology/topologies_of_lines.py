"""Build the topology tables, with unique names and the number of every line, from one parse of lines."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import xxhash

from penstock.plans.errors import EACH_NAME_ONCE, INPUT_STAGE, RENAME_ONE, ErrorKind, TopologyError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.tables import JOB_SETTINGS, TABLES, TOPOLOGIES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.rules import ALLOWED_AND_HINT
from penstock.plans.topology.validate_topology import LINE
from penstock.plans.vocabulary import TopologyForm

# The tables of the topology layer as frames, for all input forms.


class TopologyTables(NamedTuple):
    """Frames with the schemas of the same names in `plans.tables`.

    inputs = topologies + rejected: `inputs` counts lines that are not blank, objects, rows of
    `topologies`, and topologies that only `transformations` names.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    stream_nodes: pl.DataFrame
    stream_edges: pl.DataFrame
    job_settings: pl.DataFrame
    rejected: pl.DataFrame
    inputs: int

    @classmethod
    def of(cls, frames: dict[str, pl.DataFrame]) -> "TopologyTables":
        """Return the tables of `frames`, which is emptied; its rows are all inputs."""
        inputs = len(frames["topologies"]) + len(frames["rejected"])
        tables = {name: frames[name] for name in cls._fields if name != "inputs"}
        frames.clear()
        return cls(**tables, inputs=inputs)


# The key of a topology without Spark.


XXHASH64_SEED = 42
"""Spark's seed; the hash of null is the seed itself."""


def topology_id(name: str) -> int:
    """Return Spark's xxhash64(name)."""
    digest = xxhash.xxh64_intdigest(name.encode(), seed=XXHASH64_SEED)
    return digest - 2**64 if digest >= 2**63 else digest


# The validity of one row of a topologies table as one expression.


def topology_holds() -> pl.Expr:
    """Return whether a row of TOPOLOGIES is valid, apart from its form; a map with a repeated key is not."""
    config = pl.col("config").map.entries().list
    keys, values = (config.eval(pl.element().struct.field(name)).list for name in ("key", "value"))
    rules = [
        pl.col("name") != "",
        pl.col("parallelism") >= 1,
        pl.col("max_parallelism").is_null() | pl.col("max_parallelism").is_between(1, MAX_PARALLELISM),
        keys.n_unique() == config.len(),
        ~values.contains(pl.lit(None, pl.String)),
    ]
    return reduce(and_, rules).fill_null(False)


# Rows of the `rejected` table from topologies and their errors.


class RejectedTopology(NamedTuple):
    """A topology or line that is not planned; `errors` (as `parse_lines.shown`) are in order of detection."""

    name: str | None
    source_file: str | None
    source_line: int | None
    error_stage: str
    errors: list[Mapping[str, str]]


def rejected_rows(refused: Iterable[RejectedTopology]) -> pl.DataFrame:
    """Return REJECTED.

    At stage input the message joins all errors by newlines; at others it is Flink's, the first error's
    `found`.
    """
    rows = [_row(entry) for entry in refused]
    if not rows:
        return empty("rejected")
    return from_arrow(pa.Table.from_pylist(rows, TABLES["rejected"]))


def _row(refused: RejectedTopology) -> dict[str, Any]:
    errors = [TopologyError(**{**e, "location": _located(refused, e["location"])}) for e in refused.errors]
    ours = refused.error_stage == INPUT_STAGE
    return {
        "topology_id": None if refused.name is None else topology_id(refused.name),
        "name": refused.name,
        "source_file": refused.source_file,
        "source_line": refused.source_line,
        "error_stage": refused.error_stage,
        "error": errors[0].error,
        "message": "\n".join(e.message for e in errors) if ours else errors[0].found,
        "errors": [{slot: getattr(e, slot) for slot in TopologyError.__slots__} for e in errors],
    }


def _located(refused: RejectedTopology, location: str) -> str:
    """Replace the location of an error of a whole line by its line number and file."""
    if location != LINE:
        return location
    if refused.source_file is None:
        return "object"
    return f"line {refused.source_line} of {refused.source_file}"


# Errors in the rows of a given table `topologies`.


_FORM = str(TopologyForm.TRANSFORMATIONS)

NAMED_BY_TRANSFORMATIONS = "named by transformations"
"""Form of a row for a topology that only transformations name, so that its rejection names it as they do."""


def row_errors(
    ids: Sequence[int], names: Sequence[str | None], forms: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Map positions to errors; all rows of an id alike.

    Errors: TopologyIdMismatch, DuplicateTopologyName, TopologyIdCollision, NoTopology for rows of the form
    NAMED_BY_TRANSFORMATIONS, and UnknownValue for other forms that tables do not have.
    """
    with_id = Counter(ids)
    names_of: dict[int, set[str]] = {i: set() for i, count in with_id.items() if count > 1}
    for i, name in zip(ids, names, strict=True):
        if name is not None and i in names_of:
            names_of[i].add(name)
    errors_by_id: dict[int, dict[str, str]] = {}
    for i, name, form in zip(ids, names, forms, strict=True):
        if name is not None and i != topology_id(name):
            error = _error(ErrorKind.TOPOLOGY_ID_MISMATCH, f"topology_id {i}")
        elif i in names_of and len(names_of[i]) == 1:
            text = "" if name is None else f"name {limited(name, MOST_OF_A_NAME)} on {with_id[i]} rows"
            error = _error(ErrorKind.DUPLICATE_TOPOLOGY_NAME, text)
        elif i in names_of:
            error = _error(ErrorKind.TOPOLOGY_ID_COLLISION, f"topology_id {i} of several names")
        elif form == NAMED_BY_TRANSFORMATIONS:
            error = {
                **_error(
                    ErrorKind.NO_TOPOLOGY,
                    f"transformations of topology {limited(name or '', MOST_OF_A_NAME)}",
                ),
                "allowed": "a name in topologies",
                "hint": "add a row with this name to topologies, or correct the name in transformations",
            }
        elif form != _FORM:
            error = _error(ErrorKind.UNKNOWN_VALUE, f"form {limited(form, MOST_OF_A_NAME)}")
        else:
            continue
        # The first of several by name, so that the order of rows does not matter.
        errors_by_id[i] = min(errors_by_id.get(i, error), error, key=lambda error: tuple(error.values()))
    return {position: errors_by_id[i] for position, i in enumerate(ids) if i in errors_by_id}


def no_topology(ids: Iterable[int | None]) -> list[dict[str, str]]:
    """Return NoTopology for each topology_id that only transformations have."""
    texts = ("null" if i is None else str(i) for i in ids)
    return [_error(ErrorKind.NO_TOPOLOGY, f"transformations of topology_id {text}") for text in texts]


def _error(kind: ErrorKind, found: str) -> dict[str, str]:
    allowed, hint = ALLOWED_AND_HINT[kind]
    return {"error": str(kind), "location": "topology", "found": found, "allowed": allowed, "hint": hint}


# The first topology with each name or id, stored compactly.


class LinePlace(NamedTuple):
    """File and line from 1; for an object its position among the objects, from 1."""

    file: str | None
    number: int

    @property
    def line(self) -> int | None:
        return None if self.file is None else self.number


class NameRegistry:
    """Names and places by topology_id, in some 170 bytes and the name for each."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._names = bytearray()
        self._ends = array("Q", [0])
        self._numbers = array("Q")
        self._files = array("I")
        self._file_numbers: dict[str | None, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, topology_id: int, name: str, place: LinePlace) -> tuple[str, LinePlace] | None:
        """Return name and place of the earlier topology with this id; None if this one is the first."""
        row = self._rows.setdefault(topology_id, len(self._numbers))
        if row < len(self._numbers):
            return self._at(row)
        self._names += name.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._names))
        self._numbers.append(place.number)
        self._files.append(self._file_numbers.setdefault(place.file, len(self._file_numbers)))
        return None

    def _at(self, row: int) -> tuple[str, LinePlace]:
        name = bytes(self._names[self._ends[row] : self._ends[row + 1]]).decode("utf-8", "surrogatepass")
        files = list(self._file_numbers)
        return name, LinePlace(files[self._files[row]], self._numbers[row])


NESTED = ("transformations", "stream_nodes", "stream_edges")
"""Tables whose rows are an array in each line."""

_SIZED_BY = ("transformations", "stream_nodes")
_MOST_REFUSED_OF_A_PART = 100_000

_LINE_COLUMNS = tuple(n for n in TOPOLOGIES.names if n not in (TOPOLOGY, "source_line"))
_LINE = ("form", "error_stage", "block_lines", "name", "source_file", "ordinal", "line")


@dataclass(slots=True)
class _TopologyBatches:
    """Arrow batches of accepted topologies so far, and the refused lines."""

    topologies: list[pa.RecordBatch] = field(default_factory=list)
    job_settings: list[pa.RecordBatch] = field(default_factory=list)
    nested: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: {table: [] for table in NESTED})
    refused: list[RejectedTopology] = field(default_factory=list)
    inputs: int = 0
    seen: NameRegistry = field(default_factory=NameRegistry)
    continued: int | None = None
    """The topology of rows that contain only arrays."""

    def rows(self) -> int:
        """Return the number of transformations and stream nodes."""
        return sum(len(batch) for table in _SIZED_BY for batch in self.nested[table])

    def tables(self) -> TopologyTables:
        """Return the current content as frames."""
        nested = {table: _frame(table, batches) for table, batches in self.nested.items()}
        return TopologyTables(
            topologies=_frame("topologies", self.topologies),
            job_settings=_frame("job_settings", self.job_settings),
            rejected=rejected_rows(self.refused),
            inputs=self.inputs,
            **nested,
        )


# The tables of all lines.


def topologies_of_lines(parsed: Iterable[pa.RecordBatch]) -> TopologyTables:
    """Return every table from PARSED of all lines.

    Files are sorted by name (as UTF-8); lines are in order, with ordinals that count the lines of a file. A
    name of several lines belongs to the first by file and line; the others are rejected as
    DuplicateTopologyName, and a different name with the same xxhash64 as TopologyIdCollision.
    """
    sorted_lines = _TopologyBatches()
    for batch in parsed:
        _sort_out(batch, sorted_lines)
    return sorted_lines.tables()


def topologies_in_parts(parsed: Iterable[pa.RecordBatch], rows_of_a_part: int) -> Iterator[TopologyTables]:
    """topologies_of_lines in parts of whole topologies with `rows_of_a_part` rows or a few more.

    Together the parts equal the result of topologies_of_lines: a name counts once in all of them. There is at
    least one part.
    """
    sorted_lines = _TopologyBatches()
    for batch in parsed:
        if _begins_a_line(batch) and (
            sorted_lines.rows() >= rows_of_a_part or len(sorted_lines.refused) >= _MOST_REFUSED_OF_A_PART
        ):
            yield sorted_lines.tables()
            sorted_lines = _TopologyBatches(seen=sorted_lines.seen)
        _sort_out(batch, sorted_lines)
    if sorted_lines.inputs or not len(sorted_lines.seen):
        yield sorted_lines.tables()


def _begins_a_line(batch: pa.RecordBatch) -> bool:
    """Return whether the first row begins a line rather than continuing one."""
    return len(batch) > 0 and any(batch[name][0].is_valid for name in ("form", "error_stage", "block_lines"))


def _frame(table: str, batches: list[pa.RecordBatch]) -> pl.DataFrame:
    return from_arrow(pa.Table.from_batches(batches)) if batches else empty(table)


def _sort_out(batch: pa.RecordBatch, sorted_lines: _TopologyBatches) -> None:
    """Add one batch of PARSED: sort its lines, then take the wanted columns at once."""
    ids: list[int | None] = []
    accepted: list[int] = []
    lines: list[int | None] = []
    columns = [batch[name].to_pylist() for name in _LINE]
    for position, line_values in enumerate(zip(*columns, strict=True)):
        form, stage, block_lines, name, file, ordinal, line = line_values
        if form is None and stage is None:
            ids.append(sorted_lines.continued if block_lines is None else None)
            continue
        ids.append(None)
        sorted_lines.inputs += 1
        sorted_lines.continued = None
        place = LinePlace(file, (ordinal if line is None else line) + 1)
        if stage is not None:
            errors = batch["errors"][position].as_py()
            sorted_lines.refused.append(RejectedTopology(name, file, place.line, stage, errors))
            continue
        name_id = topology_id(name)
        first = sorted_lines.seen.first(name_id, name, place)
        if first is None:
            ids[position] = sorted_lines.continued = name_id
            accepted.append(position)
            lines.append(place.line)
        else:
            errors = [_repeated(name, *first)]
            sorted_lines.refused.append(RejectedTopology(name, file, place.line, INPUT_STAGE, errors))
    if accepted:
        _add_topologies(batch, accepted, ids, lines, sorted_lines)
    for table in NESTED:
        _add_elements(batch[table], ids, sorted_lines.nested[table])


MOST_OBJECTS = 2**40
"""Rows of a DataFrame have no place: a larger number, a hash of the row's text, stands for it."""


def _repeated(name: str, first_name: str, first: LinePlace) -> dict[str, str]:
    """Return the error for a topology whose name or id an earlier one has."""
    object_ = "another row" if first.number > MOST_OBJECTS else f"object {first.number}"
    at = object_ if first.file is None else f"line {first.line} of {first.file}"
    same = name == first_name
    shown, first_shown = limited(name, MOST_OF_A_NAME), limited(first_name, MOST_OF_A_NAME)
    return {
        "error": str(ErrorKind.DUPLICATE_TOPOLOGY_NAME if same else ErrorKind.TOPOLOGY_ID_COLLISION),
        "location": "topology",
        "found": f"name {shown}, which {at} has"
        if same
        else f"a name with the xxhash64 of {first_shown} at {at}",
        "allowed": EACH_NAME_ONCE,
        "hint": RENAME_ONE,
    }


def _add_topologies(
    batch: pa.RecordBatch,
    accepted: list[int],
    ids: list[int | None],
    lines: list[int | None],
    sorted_lines: _TopologyBatches,
) -> None:
    """Add TOPOLOGIES and JOB_SETTINGS of the accepted rows."""
    rows = batch.select([*_LINE_COLUMNS, "settings"]).take(pa.array(accepted, pa.int64()))
    of_rows = pa.array([ids[position] for position in accepted], pa.int64())
    columns: dict[str, Any] = {name: rows[name] for name in _LINE_COLUMNS}
    columns |= {TOPOLOGY: of_rows, "source_line": pa.array(lines, pa.int64())}
    sorted_lines.topologies.append(pa.RecordBatch.from_pydict({n: columns[n] for n in TOPOLOGIES.names}))
    settings = [of_rows, *rows["settings"].flatten()]
    sorted_lines.job_settings.append(pa.RecordBatch.from_arrays(settings, JOB_SETTINGS.names))


def _add_elements(arrays: pa.ListArray, ids: list[int | None], batches: list[pa.RecordBatch]) -> None:
    """Add the elements of `arrays` with the topology of their row, except of rows without one."""
    elements = arrays.flatten()
    if not len(elements):
        return
    lengths = np.diff(arrays.offsets.to_numpy())
    element_ids = np.repeat(np.array([i or 0 for i in ids], np.int64), lengths)
    wanted = np.repeat(np.array([i is not None for i in ids]), lengths)
    if not wanted.all():
        elements, element_ids = elements.filter(pa.array(wanted)), element_ids[wanted]
    names = [TOPOLOGY, *(field.name for field in elements.type)]
    batches.append(pa.RecordBatch.from_arrays([pa.array(element_ids), *elements.flatten()], names))
