"""A given fleet that topologies are drawn after: of a store, a file or a plan, with what is compared."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.engine.planning.plan_in_process import (
    parts_in_process,
    plan_frames,
    plan_parts,
    read_in_process,
)
from penstock.engine.sources.plan_source import PlanSource, SourceKind, require_kind
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.store_errors import store_errors
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.errors import InputError, StoreError
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Spec
from penstock.plans.generate.like.draw_like import draw_like
from penstock.plans.generate.like.fidelity import NEEDED, Distance, fidelity
from penstock.plans.generate.like.find_segments import GivenFleet, Ints, Segments, find_segments, given_fleet
from penstock.plans.layers import Choices
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.read_topology_tables import holds_tables
from penstock.plans.topology.job_defaults import NO_DEFAULTS
from penstock.plans.topology.line_too_long import MAX_LINE_BYTES
from penstock.plans.vocabulary import Layer, TopologyForm

COMPARED = 10_000
"""Drawn topologies that are planned, spread evenly over the fleet, to compare distributions."""

TABLES_OF_TOPOLOGIES = ("topologies", "transformations")

Frames = dict[str, pl.DataFrame]


class Model(NamedTuple):
    """The given fleet: its plan as far as it is compared, its topologies, and the patterns in them."""

    plan: Frames
    fleet: GivenFleet
    segments: Segments


def model_fleet(like: str) -> Model:
    """The fleet of a store, topology file or folder of tables. Raises InputError and StoreError."""
    given = require_kind(like, None, SourceKind.STORE, SourceKind.TOPOLOGIES, SourceKind.TABLES)
    return _model(_of_store(given) if given.kind is SourceKind.STORE else _of_file(like), like)


def model_of_plan(tables: Mapping[str, Any], called: str) -> Model:
    """The fleet of a plan with Arrow tables. Raises InputError, and StoreError where it ends too early."""
    if missing := [table for table in NEEDED if table not in tables]:
        raise StoreError(f"{called}: has no table {missing[0]}", f"plan until {Layer.JOB_GRAPH} or later")
    if not hasattr(tables["topologies"], "num_rows"):
        raise StoreError(f"{called}: its tables are Spark's", "write it to a store, and draw after that")
    return _model(_of_transformations(_needed(tables)), called)


def _model(plan: Frames, called: str) -> Model:
    fleet = given_fleet(plan["topologies"], plan["transformations"])
    if not len(fleet.topologies):
        raise InputError(
            f"{called}: no topology of transformations was planned, so there is none to draw after",
            "stream graphs are not drawn after",
        )
    return Model(plan, fleet, find_segments(fleet))


class Part(NamedTuple):
    """Topologies `start` and on, as tables by name, and how many of them are varied."""

    start: int
    tables: Mapping[str, pl.DataFrame]
    varied: int


def draw_after(model: Model, topologies: int, seed: int) -> Iterator[Part]:
    """That many topologies, in parts of about ROWS_OF_A_PART rows.

    Raises ConfigurationError at once for numbers that mean nothing.
    """
    Spec(2, topologies, seed)
    mean = max(1.0, len(model.fleet.transformations) / len(model.fleet.topologies))
    step = max(1, int(ROWS_OF_A_PART / mean))

    def parts() -> Iterator[Part]:
        for start in range(0, topologies, step):
            numbers: Ints = np.arange(start, min(start + step, topologies))
            drawn = draw_like(model.fleet, model.segments, seed, numbers)
            yield Part(start, drawn.tables, drawn.varied)

    return parts()


class Comparison(NamedTuple):
    """How many drawn topologies were planned to compare them, how many of these Flink refuses, and how close
    the distributions are."""

    planned: int
    refused: int
    distances: list[Distance]


def compare_with_model(model: Model, topologies: int, seed: int) -> Comparison:
    """How like the model the drawn fleet is; up to COMPARED of its topologies are drawn again."""
    numbers = np.arange(topologies)[:: -(-topologies // COMPARED)]
    drawn = _planned(draw_like(model.fleet, model.segments, seed, numbers).tables)
    distances = fidelity(model.plan, drawn, seed) if len(drawn["topologies"]) else []
    return Comparison(len(numbers), len(numbers) - len(drawn["topologies"]), list(distances))


def _of_store(source: PlanSource) -> Frames:
    """The version's planned topologies of transformations; the columns that are needed."""
    store = source.path
    with store_errors(store, "reading"):
        plan = open_plan(store, source.version)
        missing = [table for table in NEEDED if not plan.has(table)]
        if missing:
            raise StoreError(
                f"{store}: version {plan.version.version} has no table {missing[0]}",
                f"penstock plan INPUT --out {store} --until {Layer.JOB_GRAPH}",
            )
        return _of_transformations(
            {
                table: plan.table(table).select(_columns(table)).collect()
                for table in dict.fromkeys((*TABLES_OF_TOPOLOGIES, *NEEDED))
            }
        )


def _of_file(path: str) -> Frames:
    """The topologies of a file that Flink does not refuse; of their plans, only what is needed is held."""
    if holds_tables(path):
        read = read_in_process(path, lambda stage: None)
        return _of_transformations(_plan(read.frames, read.inputs))
    parts: list[Frames] = []
    plan_parts(
        parts_in_process([path], MAX_LINE_BYTES, NO_DEFAULTS),
        Layer.JOB_GRAPH,
        Choices(),
        lambda tables: parts.append(_of_transformations(_needed(tables))),
        lambda inputs: None,
    )
    return {table: pl.concat([part[table] for part in parts]) for table in parts[0]}


def _planned(tables: Mapping[str, pl.DataFrame]) -> Frames:
    topologies, transformations = (tables[name] for name in TABLES_OF_TOPOLOGIES)
    read = read_in_process((topologies, transformations), lambda stage: None)
    return _plan(read.frames, read.inputs)


def _plan(frames: Frames, inputs: int) -> Frames:
    planned = plan_frames(frames, inputs, Layer.JOB_GRAPH, Choices(), lambda stage: None)
    return _needed(planned.tables)


def _needed(tables: Mapping[str, pa.Table]) -> Frames:
    return {
        table: from_arrow(tables[table].select(_columns(table))) for table in {*TABLES_OF_TOPOLOGIES, *NEEDED}
    }


def _columns(table: str) -> list[str]:
    return TABLES[table].names if table in TABLES_OF_TOPOLOGIES else list(NEEDED[table])


def _of_transformations(frames: Frames) -> Frames:
    ids = frames["topologies"].filter(pl.col("form") == TopologyForm.TRANSFORMATIONS).select(TOPOLOGY)
    return {table: frame.join(ids, on=TOPOLOGY, how="semi") for table, frame in frames.items()}
