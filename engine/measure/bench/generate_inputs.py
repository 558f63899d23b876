"""Make generated topologies for a JSON list of entries on standard input.

Each entry: `shape`, `spec` (of plans.generate.fleet), `tables` and `lines` (paths for the tables and the
topology lines; null: not wanted).
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.machine.operating_system import die_with_parent
from penstock.engine.output.write_lines import write_pieces
from penstock.plans.generate.fleet import (
    ROWS_OF_A_PART,
    Fleet,
    Spec,
    topologies_table,
    topology_lines,
    transformations_table,
)
from penstock.plans.generate.layered import SHAPES


def main() -> None:
    """Make all entries in this process."""
    die_with_parent()
    for entry in json.load(sys.stdin):
        _generate(entry)


def _generate(entry: dict[str, Any]) -> None:
    shape = next(shape for shape in SHAPES if shape.name == entry["shape"])
    fleet = shape.fleet(Spec(**entry["spec"]))
    if entry["tables"]:
        folder = Path(entry["tables"])
        _write(folder / "topologies", fleet, topologies_table, fleet.spec.topologies, ROWS_OF_A_PART)
        _write(folder / "transformations", fleet, transformations_table, fleet.units, fleet.units_of_a_part)
    if entry["lines"]:
        write_pieces(topology_lines(fleet), Path(entry["lines"]))


def _write(
    folder: Path, fleet: Fleet, make: Callable[[Fleet, int, int], pa.Table], units: int, step: int
) -> None:
    """Write the rows of a table as Parquet files, one for each part, which Spark reads in parallel."""
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed run
    folder.mkdir(parents=True)
    parts = (make(fleet, start, min(start + step, units)) for start in range(0, units, step))
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{number:05}.parquet")


if __name__ == "__main__":
    main()
