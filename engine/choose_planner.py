"""Which planner an input is for."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from engine.machine import memory_bytes
from plans.columnar.topology.find_topology_files import find_topology_files, local_path
from plans.columnar.topology.read_topology_tables import holds_tables
from plans.errors import ConfigurationError, InputError

BYTES_OF_A_ROW = 6_000
"""Memory that the columnar planner takes for a transformation, with all layers and tables, and reserve."""

_BYTES_OF_JSON = 100
_PLAIN = (".jsonl", ".json", ".txt")
_PACKED = 10
"""How many times smaller a compressed topology file is, about."""


class Planner(StrEnum):
    """Who plans; the plans are the same."""

    AUTO = "auto"  #: columnar where the input is local and fits in memory, else spark
    SPARK = "spark"  #: joins and windows on Spark, any size, any file system
    COLUMNAR = "columnar"  #: arrays in this process, without Spark
    FLINK = "flink"  #: columnar, and only what the real Flink plans in the same way


class Choice(NamedTuple):
    """The planner, and for people why."""

    planner: Planner
    why: str


def choose_planner(asked: Planner, inputs: Sequence[str], out: str, wants_spark: bool) -> Choice:
    """The planner for `inputs`. `wants_spark`: settings for Spark were given.

    Raises ConfigurationError if a planner without Spark was asked for and cannot take them.
    """
    obstacle = _obstacle([*inputs, out], wants_spark)
    if asked in (Planner.COLUMNAR, Planner.FLINK) and obstacle is not None:
        raise ConfigurationError(f"--planner {asked}: {obstacle}", "leave --planner out, or say spark")
    if asked is not Planner.AUTO:
        return Choice(asked, "as asked")
    if obstacle is not None:
        return Choice(Planner.SPARK, obstacle)
    rows, most = _rows(inputs), memory_bytes() // BYTES_OF_A_ROW
    if rows > most:
        return Choice(Planner.SPARK, f"about {rows:,} transformations, of which {most:,} fit in memory")
    return Choice(Planner.COLUMNAR, f"about {rows:,} transformations fit in memory")


def _obstacle(paths: Sequence[str], wants_spark: bool) -> str | None:
    if wants_spark:
        return "settings for Spark were given"
    for path in paths:
        try:
            local_path(path)
        except InputError:
            return f"{path} is not a local path"
    return None


def _rows(inputs: Sequence[str]) -> int:
    """About how many transformations the inputs have; what cannot be read is for the reader to say."""
    if len(inputs) == 1 and holds_tables(inputs[0]):
        table = Path(local_path(inputs[0])) / "transformations"
        return sum(pq.read_metadata(file).num_rows for file in table.rglob("*.parquet"))
    try:
        files = find_topology_files(inputs)
    except (InputError, OSError):
        return 0
    sizes = (Path(file).stat().st_size * (1 if file.endswith(_PLAIN) else _PACKED) for file in files)
    return sum(sizes) // _BYTES_OF_JSON
