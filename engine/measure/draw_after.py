"""Draw topologies by a trace, by a spec file, or after a given fleet, and compare distributions."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
import polars as pl

from penstock.engine.measure.bench.prepare_inputs import SUITES, WORKLOADS
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.plan_source import PlanSource, SourceKind, require_kind
from penstock.engine.store.plan_tables import PlanTables, plan_in_memory
from penstock.plans.errors import ConfigurationError, InputError, StoreError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.generate.draw_by_trace import DEFAULT_MOST_PARALLELISM, draw_by_trace
from penstock.plans.generate.draw_like import (
    GivenFleet,
    Ints,
    Segments,
    as_transformations,
    draw_like,
    find_segments,
    given_fleet,
)
from penstock.plans.generate.fidelity import NEEDED, Distance, fidelity
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Spec
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_topology_lines import TOPOLOGY_COLUMNS, to_topology_lines
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.vocabulary import Layer, TopologyForm

if TYPE_CHECKING:
    from penstock.plans.generate.draw_by_spec import Counts, FleetSpec

# Topologies drawn one by one, as dicts.


ENDINGS = (".yaml", ".yml")
"""Endings of spec files."""

Topology = dict[str, Any]


def workloads(parallelism: int | None) -> list[Topology]:
    """Return all workloads at that parallelism, by default 4; operators that set their own keep it.

    Raises ConfigurationError if Flink does not allow the parallelism.
    """
    if parallelism is not None and not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigurationError(f"parallelism must be from 1 to {MAX_PARALLELISM}, got {parallelism}")
    at = {} if parallelism is None else {"parallelism": parallelism}
    lines = WORKLOADS.read_text(encoding="utf-8").splitlines()
    return [{**json.loads(line), **at} for line in lines]


def topologies_by_trace(
    trace: str, topologies: int, seed: int, parallelism: int | None
) -> Iterator[Topology]:
    """Draw topologies after a trace; `parallelism` is the maximum of an operator.

    Raises ConfigurationError at once for impossible numbers.
    """
    most = DEFAULT_MOST_PARALLELISM if parallelism is None else parallelism
    Spec(2, topologies, seed, parallelism=most)
    return (draw_by_trace(trace, seed, number, most) for number in range(topologies))


# Topologies drawn one by one by a spec file.


def fleet_spec(path: str, topologies: int, seed: int) -> "FleetSpec":
    """Read the spec of a file for that many topologies. Raises InputError and ConfigurationError."""
    from penstock.plans.generate.draw_by_spec import read_fleet_spec

    Spec(2, topologies, seed)
    try:
        return read_fleet_spec(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: spec file not found") from error


def topologies_by_spec(spec: "FleetSpec", topologies: int, seed: int, counts: "Counts") -> Iterator[Topology]:
    """Draw topologies by a spec; `counts` counts them."""
    from penstock.plans.generate.draw_by_spec import draw_by_spec

    return (draw_by_spec(spec, seed, number, counts) for number in range(topologies))


# Plans of given topologies, as models for drawing and for comparison.


TABLES_OF_TOPOLOGIES = ("topologies", "transformations")
_NEEDED = PlanOptions(Layer.JOB_GRAPH)

Frames = dict[str, pl.DataFrame]
ReadRows = Callable[[str, pl.Series], pl.DataFrame]
"""Reads the columns TOPOLOGY_COLUMNS of a table for topologies with these ids."""


def frames_of_plan(plan: PlanTables) -> Frames:
    """Read the needed part of a plan. Raises StoreError if it lacks a layer."""
    missing = [table for table in NEEDED if not plan.has(table)]
    if missing and plan.stored is not None:
        raise StoreError(
            f"{plan.label}: version {plan.version} has no table {missing[0]}",
            f"penstock plan INPUT --out {plan.label} --until {Layer.JOB_GRAPH}",
        )
    if missing:
        raise StoreError(f"{plan.label}: has no table {missing[0]}", f"plan until {Layer.JOB_GRAPH} or later")

    def rows(table: str, ids: pl.Series) -> pl.DataFrame:
        chosen = plan.table(table).filter(pl.col(TOPOLOGY).is_in(ids.implode()))
        return chosen.select(TOPOLOGY_COLUMNS[table]).collect()

    return _without_graphs({table: plan.frame(table, *_columns(table)) for table in _TABLES}, rows)


def plan_of_topologies(tables: Mapping[str, pl.DataFrame]) -> Frames:
    """Plan the tables of topologies, without topologies that Flink refuses."""
    topologies, transformations = (tables[name] for name in TABLES_OF_TOPOLOGIES)
    planned = plan_in_process((topologies, transformations), _NEEDED)
    return frames_of_plan(plan_in_memory("drawn topologies", planned.tables, {}, None))


_TABLES = tuple(dict.fromkeys((*TABLES_OF_TOPOLOGIES, *NEEDED)))


def _columns(table: str) -> list[str]:
    return TABLES[table].names if table in TABLES_OF_TOPOLOGIES else list(NEEDED[table])


def _without_graphs(frames: Frames, rows: ReadRows) -> Frames:
    """Replace stream graphs by transformations in the tables of topologies; their plans stay unchanged.

    Topologies that cannot be written as transformations are left out with their plans.
    """
    is_graph = pl.col("form") == TopologyForm.STREAM_GRAPH
    graphs = frames["topologies"].filter(is_graph)
    if graphs.is_empty():
        return frames
    ids = graphs[TOPOLOGY]
    tables_of_graphs = {table: rows(table, ids) for table in ("topologies", "stream_nodes", "stream_edges")}
    written = map(as_transformations, map(orjson.loads, to_topology_lines(tables_of_graphs)["line"]))
    topologies = [topology for topology in written if topology is not None]
    planned = plan_in_process(topologies, _NEEDED).tables
    rest = frames["topologies"].filter(~is_graph)
    replaced = {
        "topologies": pl.concat([rest, from_arrow(planned["topologies"].select(_columns("topologies")))]),
        "transformations": pl.concat(
            [
                frames["transformations"],
                from_arrow(planned["transformations"].select(_columns("transformations"))),
            ]
        ),
    }
    writable = replaced["topologies"].select(TOPOLOGY)
    return {
        table: frame.join(writable, on=TOPOLOGY, how="semi")
        for table, frame in {**frames, **replaced}.items()
    }


COMPARED = 10_000
"""Maximum of drawn topologies, spread evenly over the fleet, that are planned to compare distributions."""


# The given fleet and its patterns.


class Model(NamedTuple):
    """Compared figures of the given fleet's plan, its topologies, and their patterns."""

    plan: Frames
    fleet: GivenFleet
    segments: Segments


def source_of_fleet(like: str) -> PlanSource:
    """Identify a store, topology file or folder of tables, else a suite bundled with Penstock by its name.

    Raises InputError for anything else.
    """
    suite = SUITES.get(like)
    if suite is not None and suite.file is not None and not Path(like).exists():
        return PlanSource(SourceKind.TOPOLOGIES, str(suite.file))
    return require_kind(like, None, SourceKind.STORE, SourceKind.TOPOLOGIES, SourceKind.TABLES)


def model_fleet(plan: PlanTables, called: str) -> Model:
    """Make the model of a plan. Raises InputError, and StoreError if a layer is missing."""
    frames = frames_of_plan(plan)
    fleet = given_fleet(frames["topologies"], frames["transformations"])
    if not len(fleet.topologies):
        raise InputError(
            f"{called}: no topology was planned, so none can be drawn after it",
            "table rejected of its plan gives the reasons",
        )
    return Model(frames, fleet, find_segments(fleet))


class FleetPart(NamedTuple):
    """Tables by name of topologies from number `start`, and how many of them are varied."""

    start: int
    tables: Mapping[str, pl.DataFrame]
    varied: int


def draw_after(model: Model, topologies: int, seed: int) -> Iterator[FleetPart]:
    """Yield that many topologies, in parts of about ROWS_OF_A_PART rows.

    Raises ConfigurationError at once for impossible numbers.
    """
    Spec(2, topologies, seed)
    mean = max(1.0, len(model.fleet.transformations) / len(model.fleet.topologies))
    step = max(1, int(ROWS_OF_A_PART / mean))

    def parts() -> Iterator[FleetPart]:
        for start in range(0, topologies, step):
            numbers: Ints = np.arange(start, min(start + step, topologies))
            drawn = draw_like(model.fleet, model.segments, seed, numbers)
            yield FleetPart(start, drawn.tables, drawn.varied)

    return parts()


class Comparison(NamedTuple):
    """Counts of topologies planned for comparison, and refused by Flink; distances of distributions."""

    planned: int
    refused: int
    distances: list[Distance]


def compare_with_model(model: Model, topologies: int, seed: int) -> Comparison:
    """Compare the drawn fleet with the model, by drawing up to COMPARED of its topologies again."""
    numbers = np.arange(topologies)[:: -(-topologies // COMPARED)]
    drawn = plan_of_topologies(draw_like(model.fleet, model.segments, seed, numbers).tables)
    distances = fidelity(model.plan, drawn, seed) if len(drawn["topologies"]) else []
    return Comparison(len(numbers), len(numbers) - len(drawn["topologies"]), list(distances))
