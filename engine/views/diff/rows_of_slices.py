"""Rows of chosen topologies, slice by slice, out of tables that are read once."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import polars as pl

from penstock.plans.tables.column_types import TOPOLOGY

SLICE = "slice"


def rows_of_slices(
    frames: Mapping[str, pl.LazyFrame], chosen: pl.DataFrame, slices: int, folder: Path
) -> Iterator[dict[str, pl.DataFrame]]:
    """The rows of slice 0, 1 and so on of `slices`, by table, in the order of the frames.

    `chosen`: topology_id and slice. Several slices are kept in files in `folder` until their turn comes, so
    that time does not grow with slices times rows, and one slice is in memory at a time.
    """
    ids = chosen.lazy()
    if slices == 1:
        alone = {table: frame.join(ids, on=TOPOLOGY, how="semi") for table, frame in frames.items()}
        # One after the other: each scan holds buffers, all at once would hold a few hundred MB.
        yield {table: frame.collect(engine="streaming") for table, frame in alone.items()}
        return
    kept = Path(mkdtemp(prefix="slices-", dir=folder))
    for table, frame in frames.items():
        rows = frame.join(ids, on=TOPOLOGY, how="inner", maintain_order="left")
        target = pl.PartitionBy(kept / table, key=SLICE, include_key=False, approximate_bytes_per_file=None)
        rows.sink_ipc(target, mkdir=True, engine="streaming")
    for number in range(slices):
        yield {table: _read(kept / table / f"{SLICE}={number}", frame) for table, frame in frames.items()}
    rmtree(kept)


def _read(folder: Path, frame: pl.LazyFrame) -> pl.DataFrame:
    """What the files hold, which are removed. Slices without rows have none."""
    files = sorted(folder.glob("*.ipc"))
    if not files:
        return frame.collect_schema().to_frame()
    rows = pl.concat([pl.read_ipc(file) for file in files])
    rmtree(folder)
    return rows
