"""`penstock generate --like`: a fleet drawn after a given one, and how like it is."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.engine.commands.plan_source import PlanSource, SourceKind, require_kind
from penstock.engine.commands.print_distances import print_distances
from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_in_process import (
    parts_in_process,
    plan_frames,
    plan_parts,
    read_in_process,
)
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.store_errors import store_errors
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.errors import ConfigurationError, InputError, StoreError
from penstock.plans.generate.fleet import ROWS_OF_A_PART, Spec
from penstock.plans.generate.like.draw_like import draw_like
from penstock.plans.generate.like.fidelity import NEEDED, fidelity
from penstock.plans.generate.like.find_segments import GivenFleet, Ints, Segments, find_segments, given_fleet
from penstock.plans.layers import Choices
from penstock.plans.plan_json.columnar.to_topology_lines import to_topology_lines
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.read_topology_tables import holds_tables
from penstock.plans.topology.job_defaults import NO_DEFAULTS
from penstock.plans.topology.line_too_long import MAX_LINE_BYTES
from penstock.plans.vocabulary import Layer, TopologyForm

COMPARED = 10_000
"""Drawn topologies that are planned, spread evenly over the fleet, to compare distributions."""

_TABLES = ("topologies", "transformations")

Frames = dict[str, pl.DataFrame]


def generate_like(like: str, out: str, topologies: int, seed: int, of_shapes: Mapping[str, bool]) -> None:
    """Write topologies drawn after those of a store or file into FILE.jsonl or FILE.jsonl.gz.

    Says how far their distributions are from the given ones. `of_shapes`: what only shapes take, and whether
    it was given. Raises ConfigurationError, InputError and StoreError.
    """
    taken = [name for name, is_given in of_shapes.items() if is_given]
    if taken:
        raise ConfigurationError(
            f"{', '.join(taken)}: not with --like, which draws all of it", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "with --like")
    Spec(2, topologies, seed)  # refuses numbers that mean nothing
    with progress(4) as report:
        report("read topologies")
        given = require_kind(like, None, SourceKind.STORE, SourceKind.TOPOLOGIES, SourceKind.TABLES)
        plan = _of_store(given) if given.kind is SourceKind.STORE else _of_file(like)
        fleet = given_fleet(plan["topologies"], plan["transformations"])
        if not len(fleet.topologies):
            raise InputError(
                f"{like}: no topology of transformations was planned, so there is none to draw after",
                "stream graphs are not drawn after",
            )
        segments = find_segments(fleet)
        report("draw topologies")
        written = _Written()
        write_texts(_lines(fleet, segments, topologies, seed, report, written), Path(out))
        report("plan drawn topologies")
        numbers = np.arange(topologies)[:: -(-topologies // COMPARED)]
        drawn = _planned(draw_like(fleet, segments, seed, numbers).tables)
        report("compare")
        distances = fidelity(plan, drawn, seed) if len(drawn["topologies"]) else []
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(
        f"{many} in {out}, drawn after {len(fleet.topologies):,} of {like}; {written.varied:,} are varied"
    )
    refused = len(numbers) - len(drawn["topologies"])
    if refused:
        say_beside_output(f"{refused:,} of {len(numbers):,} that were planned to compare them are refused")
    print_distances(distances)


class _Written:
    """What is known once all lines are written."""

    varied = 0


def _lines(
    fleet: GivenFleet, segments: Segments, topologies: int, seed: int, report: Report, written: _Written
) -> Iterator[str]:
    mean = max(1.0, len(fleet.transformations) / len(fleet.topologies))
    step = max(1, int(ROWS_OF_A_PART / mean))
    for start in range(0, topologies, step):
        report.note(f"{start:,} of {topologies:,}")
        numbers: Ints = np.arange(start, min(start + step, topologies))
        drawn = draw_like(fleet, segments, seed, numbers)
        written.varied += drawn.varied
        yield from to_topology_lines(drawn.tables)["line"]


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
                for table in dict.fromkeys((*_TABLES, *NEEDED))
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


def _planned(tables: Frames) -> Frames:
    topologies, transformations = (tables[name] for name in _TABLES)
    read = read_in_process((topologies, transformations), lambda stage: None)
    return _plan(read.frames, read.inputs)


def _plan(frames: Frames, inputs: int) -> Frames:
    planned = plan_frames(frames, inputs, Layer.JOB_GRAPH, Choices(), lambda stage: None)
    return _needed(planned.tables)


def _needed(tables: Mapping[str, pa.Table]) -> Frames:
    return {table: from_arrow(tables[table].select(_columns(table))) for table in {*_TABLES, *NEEDED}}


def _columns(table: str) -> list[str]:
    return TABLES[table].names if table in _TABLES else list(NEEDED[table])


def _of_transformations(frames: Frames) -> Frames:
    ids = frames["topologies"].filter(pl.col("form") == TopologyForm.TRANSFORMATIONS).select(TOPOLOGY)
    return {table: frame.join(ids, on=TOPOLOGY, how="semi") for table, frame in frames.items()}
