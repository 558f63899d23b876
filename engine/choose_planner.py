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

BYTES_OF_A_ROW = 3_000
"""Memory that the columnar planner takes for a transformation of a fleet: all layers, tables and reserve."""

LARGEST_OF_A_WORKER = 500_000
"""Transformations or stream nodes of one topology that a Python worker of Spark plans in some 2 GiB."""

_BYTES_OF_JSON = 100
_PLAIN = (".jsonl", ".json", ".txt")
_PACKED = 10
"""How many times smaller a compressed topology file is, about."""


class Planner(StrEnum):
    """Who plans; the plans are the same."""

    AUTO = "auto"  #: columnar where each topology fits in memory, else spark
    SPARK = "spark"  #: joins and windows on Spark, any size, any file system
    COLUMNAR = "columnar"  #: arrays: in this process, or of whole topologies in Spark's workers
    FLINK = "flink"  #: columnar, and only what the real Flink plans in the same way


class Choice(NamedTuple):
    """The planner, for people why, and whether it takes Spark."""

    planner: Planner
    why: str
    on_spark: bool = False


def choose_planner(asked: Planner, inputs: Sequence[str], out: str, wants_spark: bool) -> Choice:
    """Who plans `inputs`, before anything is read. `wants_spark`: settings for Spark were given.

    On Spark, `choose_on_spark` decides once topologies are counted. Raises ConfigurationError if Flink was
    asked for where it cannot plan.
    """
    obstacle = _obstacle([*inputs, out], wants_spark)
    if asked is Planner.FLINK and obstacle is not None:
        raise ConfigurationError(f"--planner {asked}: {obstacle}", "leave --planner out, or say spark")
    if asked in (Planner.FLINK, Planner.SPARK):
        return Choice(asked, "as asked", on_spark=asked is Planner.SPARK)
    if obstacle is not None:
        return Choice(asked, obstacle, on_spark=True)
    if asked is Planner.COLUMNAR:
        return Choice(asked, "as asked")
    rows, most = _rows(inputs), memory_bytes() // BYTES_OF_A_ROW
    if rows > most:
        return Choice(
            asked, f"about {rows:,} transformations, of which {most:,} fit in memory", on_spark=True
        )
    return Choice(Planner.COLUMNAR, f"about {rows:,} transformations fit in memory")


def choose_on_spark(asked: Planner, largest: int) -> Choice:
    """Who plans on Spark, where the largest topology has so many transformations or stream nodes.

    Raises ConfigurationError if Flink was asked for.
    """
    if asked is Planner.FLINK:
        hint = "call engine.plan_by_flink.plan_by_flink"
        raise ConfigurationError("planner flink: plans without Spark", hint)
    if asked in (Planner.SPARK, Planner.COLUMNAR):
        return Choice(asked, "as asked", on_spark=True)
    if largest > LARGEST_OF_A_WORKER:
        why = (
            f"a topology has {largest:,} transformations, and a worker plans {LARGEST_OF_A_WORKER:,} at most"
        )
        return Choice(Planner.SPARK, why, on_spark=True)
    return Choice(Planner.COLUMNAR, "whole topologies in Spark's workers", on_spark=True)


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
