"""Planning without Spark: small inputs in this process, by the columnar planner."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from plans.columnar.frames import to_arrow
from plans.columnar.plan_columnar import plan_columnar
from plans.columnar.read_topologies import read_topologies
from plans.errors import LostTopologiesError
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
    InputError, and LostTopologiesError if inputs != planned + rejected.
    """
    seconds: dict[str, float] = {}
    stage, started = "read_and_validate", time.monotonic()

    def next_stage(name: str) -> None:
        nonlocal stage, started
        now = time.monotonic()
        seconds[stage] = now - started
        stage, started = name, now
        if name:
            report(name.replace("_", " "))

    report("read topologies")
    given = read_topologies(topologies)
    frames = {name: frame for name, frame in given._asdict().items() if name != "inputs"}
    planned = plan_columnar(frames, until, choices or Choices(), next_stage)
    next_stage("to_arrow")
    tables = {name: to_arrow(frame, name) for name, frame in planned.items()}
    next_stage("")
    kept, rejected = len(tables["topologies"]), len(tables["rejected"])
    if given.inputs != kept + rejected:
        raise LostTopologiesError(
            f"{given.inputs} topologies came in, but {kept} are planned and {rejected} rejected",
            "this is a bug in Penstock: please report it with the input",
        )
    return PlannedTables(tables, given.inputs, kept, rejected, seconds)
