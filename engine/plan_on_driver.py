"""Planning without Spark: small inputs in this process, by the columnar planner."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from engine.nothing_lost import require_nothing_lost
from plans.columnar.frames import TOPOLOGY
from plans.columnar.plan_in_parts import plan_in_parts
from plans.columnar.read_topologies import read_topologies
from plans.columnar.without_garbage_collection import without_garbage_collection
from plans.passes import Choices
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
) -> PlannedTables:
    """Plans of all topologies, as Arrow tables: the same rows as engine.plan_topologies.plan gives.

    `topologies`: a path or several, or dicts; no DataFrames. No Spark session is used or started. Raises
    InputError and LostTopologiesError (see require_nothing_lost).
    """
    started = time.monotonic()
    report("read topologies")
    with without_garbage_collection():
        frames = read_topologies(topologies)._asdict()
    inputs = frames.pop("inputs")
    read = time.monotonic() - started
    planned = plan_frames(frames, inputs, until, choices, report)
    return planned._replace(seconds={"read_and_validate": read, **planned.seconds})


def plan_frames(
    frames: dict[str, pl.DataFrame],
    inputs: int,
    until: Layer,
    choices: Choices | None,
    report: Callable[[str], None],
) -> PlannedTables:
    """`plan_on_driver` of topologies that were read: `frames` are what `inputs` became, and are emptied."""
    planned = plan_in_parts(
        frames, until, choices or Choices(), lambda stage: report(stage.replace("_", " "))
    )
    tables = planned.tables
    kept, rejected = len(tables["topologies"]), len(tables["rejected"])
    require_nothing_lost(inputs, kept, rejected, len(tables["topologies"][TOPOLOGY].unique()))
    return PlannedTables(tables, inputs, kept, rejected, planned.seconds)
