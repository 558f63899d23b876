"""About how many transformations and topologies an input holds, before it is read."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.planning.foresee_memory import Size
from penstock.plans.topology.columnar.find_topology_files import find_topology_files, local_path
from penstock.plans.topology.columnar.open_given_table import is_delta
from penstock.plans.topology.columnar.read_topology_tables import holds_tables
from penstock.plans.topology.json_documents import is_document
from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts
from penstock.plans.vocabulary import TopologyForm

_SAMPLED_FILES = 16
_SAMPLE_BYTES = 2**20
_PACKED_BYTES = 2**16
"""Of a compressed file; topologies are packed 10 to 30 times."""


def estimate_size(inputs: Sequence[str]) -> Size:
    """Out of the footers of tables, or the first MiB of some of the files.

    What cannot be read counts nothing here; it is for the reader to say.
    """
    try:
        if len(inputs) == 1 and holds_tables(inputs[0]):
            folder = Path(local_path(inputs[0]))
            return Size(_rows_of(folder / "transformations"), _rows_of(folder / "topologies"))
        files = [file for file in find_topology_files(inputs) if os.path.isfile(file)]
        total = sum(os.path.getsize(file) for file in files)
        sampled = files[:: -(-len(files) // _SAMPLED_FILES) or 1]
        samples = [found for found in map(_sample, sampled) if found is not None]
    except Exception:
        return Size(0, 0)
    taken = sum(size for size, _ in samples)
    if not taken:
        return Size(0, 0)
    transformations = sum(text.count(b'"kind"') + text.count(b'"in_edges"') for _, text in samples)
    # Where a sample holds no end of a line, the file is one line as far as anybody knows.
    topologies = sum(_topologies(text) for _, text in samples if b"\n" in text)
    return Size(transformations * total // taken, max(len(files), topologies * total // taken))


def _topologies(text: bytes) -> int:
    """How many topologies, or lines that are none; a topology that is pretty-printed has many lines."""
    named = sum(text.count(f'"{form}"'.encode()) for form in TopologyForm)
    lines = sum(bool(line.strip()) for line in text.split(b"\n"))
    return named if is_document(text) else max(lines, named)


def _rows_of(table: Path) -> int:
    files: Iterable[Path] = table.rglob("*.parquet")
    if is_delta(table):  # has files that its newest version is without
        from deltalake import DeltaTable

        actions = pa.RecordBatchReader.from_stream(DeltaTable(table).get_add_actions()).read_all()
        rows = actions["num_records"].to_pylist()
        if None not in rows:
            return sum(rows)
        files = [table / unquote(path) for path in actions["path"].to_pylist()]
    return sum(pq.read_metadata(file).num_rows for file in files)


def _sample(file: str) -> tuple[int, bytes] | None:
    """How many bytes at the start of the file were read, and the text in them; None if they cannot be."""
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    try:
        with open(file, "rb") as opened:
            taken = opened.read(_SAMPLE_BYTES if codec is None else _PACKED_BYTES)
    except OSError:
        return None
    return len(taken), taken if codec is None else _unpacked(taken, codec)


def _unpacked(packed: bytes, codec: str) -> bytes:
    """What can be unpacked of the start of a file, up to _SAMPLE_BYTES and a little."""
    text = bytearray()
    try:
        for more in unpacked_texts(pa.BufferReader(packed), codec, 2**14):
            text += more
            if len(text) >= _SAMPLE_BYTES:
                break
    except (OSError, pa.ArrowException):  # cut off, as expected
        pass
    return bytes(text)
