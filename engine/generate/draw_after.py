"""A given fleet that topologies are drawn after: of a store, a file or a plan, with what is compared."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock.engine.bench.suites import SUITES
from penstock.engine.generate.plans_to_draw_after import (
    Frames,
    plan_of_file,
    plan_of_store,
    plan_of_tables,
    plan_of_topologies,
)
from penstock.engine.sources.plan_source import SourceKind, require_kind
from penstock.plans.errors import InputError, StoreError
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Spec
from penstock.plans.generate.like.draw_like import draw_like
from penstock.plans.generate.like.fidelity import NEEDED, Distance, fidelity
from penstock.plans.generate.like.find_segments import GivenFleet, Ints, Segments, find_segments, given_fleet
from penstock.plans.vocabulary import Layer

COMPARED = 10_000
"""Drawn topologies that are planned, spread evenly over the fleet, to compare distributions."""


class Model(NamedTuple):
    """The given fleet: its plan as far as it is compared, its topologies, and the patterns in them."""

    plan: Frames
    fleet: GivenFleet
    segments: Segments


def model_fleet(like: str) -> Model:
    """The fleet of a store, topology file or folder of tables, else of a suite that comes with Penstock.

    Raises InputError and StoreError.
    """
    suite = SUITES.get(like)
    if suite is not None and suite.file is not None and not Path(like).exists():
        return _model(plan_of_file(str(suite.file)), like)
    given = require_kind(like, None, SourceKind.STORE, SourceKind.TOPOLOGIES, SourceKind.TABLES)
    return _model(plan_of_store(given) if given.kind is SourceKind.STORE else plan_of_file(like), like)


def model_of_plan(tables: Mapping[str, Any], called: str) -> Model:
    """The fleet of a plan with Arrow tables. Raises InputError, and StoreError where it ends too early."""
    if missing := [table for table in NEEDED if table not in tables]:
        raise StoreError(f"{called}: has no table {missing[0]}", f"plan until {Layer.JOB_GRAPH} or later")
    if not hasattr(tables["topologies"], "num_rows"):
        raise StoreError(f"{called}: its tables are Spark's", "write it to a store, and draw after that")
    return _model(plan_of_tables(tables), called)


def _model(plan: Frames, called: str) -> Model:
    fleet = given_fleet(plan["topologies"], plan["transformations"])
    if not len(fleet.topologies):
        raise InputError(
            f"{called}: no topology was planned, so there is none to draw after",
            f"penstock plan {called} --out STORE, and penstock rejected STORE, say why",
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
    drawn = plan_of_topologies(draw_like(model.fleet, model.segments, seed, numbers).tables)
    distances = fidelity(model.plan, drawn, seed) if len(drawn["topologies"]) else []
    return Comparison(len(numbers), len(numbers) - len(drawn["topologies"]), list(distances))
