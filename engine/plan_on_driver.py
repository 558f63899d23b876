"""Planning without Spark: small inputs in this process, by the columnar planner."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from engine.foresee_memory import (
    Size,
    require_memory_after_reading,
    require_memory_for_tasks,
    require_memory_to_read_on,
)
from plans.columnar.plan_in_parts import plan_in_parts
from plans.columnar.read_topologies import read_topologies
from plans.columnar.without_garbage_collection import without_garbage_collection
from plans.errors import LostTopologiesError
from plans.passes import Choices
from plans.topology.line_too_long import MAX_LINE_BYTES
from plans.vocabulary import Layer

Topologies = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any]]


class PlannedTables(NamedTuple):
    """As engine.run_passes.Planned, with Arrow tables in the place of DataFrames."""

    tables: dict[str, pa.Table]
    inputs: int
    planned: int
    rejected: int
    seconds: dict[str, float]


def plan_on_driver(
    topologies: Topologies,
    *,
    until: Layer = Layer.SLOTS,
    choices: Choices | None = None,
    report: Callable[[str], None] = lambda stage: None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> PlannedTables:
    """Plans of all topologies, as Arrow tables: the same rows as engine.plan_topologies.plan gives.

    `topologies`: a path or several, or dicts; no DataFrames. No Spark session is used or started. A line of a
    file with more than `max_line_bytes` is rejected. Raises InputError, NotEnoughMemoryError before memory
    runs out, and LostTopologiesError if inputs != planned + rejected.
    """
    seconds: dict[str, float] = {}
    started = time.monotonic()
    report("read topologies")
    with without_garbage_collection():
        read = read_topologies(
            topologies, max_line_bytes=max_line_bytes, before_block=require_memory_to_read_on
        )
    size = Size(len(read.transformations) + len(read.stream_nodes), len(read.topologies))
    require_memory_after_reading(size)
    frames = read._asdict()
    inputs = frames.pop("inputs")
    del read
    seconds["read_and_validate"] = time.monotonic() - started
    planned = plan_in_parts(
        frames,
        until,
        choices or Choices(),
        lambda stage: report(stage.replace("_", " ")),
        require_memory_for_tasks(),
    )
    tables = planned.tables
    seconds |= planned.seconds
    kept, rejected = len(tables["topologies"]), len(tables["rejected"])
    if inputs != kept + rejected:
        raise LostTopologiesError(
            f"{inputs} topologies came in, but {kept} are planned and {rejected} rejected",
            "this is a bug in Penstock: please report it with the input",
        )
    return PlannedTables(tables, inputs, kept, rejected, seconds)
