"""The parts of given topologies that may be repeated or left out."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.compiled import run_loop
from penstock.plans.tables import TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind, TopologyForm

Ints = npt.NDArray[np.int64]


class GivenFleet(NamedTuple):
    """Topologies by name, and their transformations by topology and id, which are numbered as `rows`.

    Topology t has the rows from `starts[t]` to `starts[t + 1]`. The inputs of row r are the rows
    `inputs[input_starts[r]:input_starts[r + 1]]`.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    starts: Ints
    input_starts: Ints
    inputs: Ints


def given_fleet(topologies: pl.DataFrame, transformations: pl.DataFrame) -> GivenFleet:
    """A GivenFleet of the tables of these names; topologies that came as stream graphs are left out.

    `topologies` may hold fewer than `transformations`.
    """
    kept = (
        topologies.filter(pl.col("form") == TopologyForm.TRANSFORMATIONS)
        .select(TOPOLOGIES.names)
        .sort("name")
        .with_row_index("place")
    )
    rows = (
        transformations.select(TRANSFORMATIONS.names)
        .join(kept.select(TOPOLOGY, "place"), on=TOPOLOGY, how="inner")
        .sort("place", "id")
    )
    starts = _starts(np.bincount(rows["place"].to_numpy(), minlength=len(kept)))
    counts = rows["inputs"].list.len().to_numpy()
    ids = rows["inputs"].explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)
    first = starts[:-1][rows["place"].to_numpy()]
    return GivenFleet(
        kept.drop("place"),
        rows.drop("place"),
        starts,
        _starts(counts),
        np.repeat(first, counts) + ids - 1,
    )


def _starts(counts: npt.NDArray[np.generic]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


Bools = npt.NDArray[np.bool_]


class Segments(NamedTuple):
    """Segments are numbered by topology; no row is in two.

    A *branch* is one of several readers of an operator, with everything that follows from it alone; its
    copies stand side by side. A *run* is an operator with one input and one reader, at its input's
    parallelism, with the partitions before it; its copies follow each other, and if it is left out, its
    reader reads its input.
    """

    of_row: Ints  #: -1: of none
    starts: Ints  #: starts per topology, as GivenFleet.starts
    first: Ints  #: its first row, which is its key in draws
    last: Ints  #: its last row; for a run, the operator that is read
    operators: Ints
    entry: Ints  #: for a run, the row that it reads; -1 for a branch


def find_segments(fleet: GivenFleet) -> Segments:
    """Segments of all topologies, in time linear in their rows."""
    branch = _branches(fleet)
    run, entry = _runs(fleet)
    run[branch >= 0] = -1
    # Both are named by a row: a branch by its first, a run by its last.
    named = np.where(branch >= 0, branch, run)
    rows = np.flatnonzero(named >= 0)
    names, of_row = np.unique(named[rows], return_inverse=True)
    first = np.full(len(names), len(named), np.int64)
    last = np.full(len(names), -1, np.int64)
    np.minimum.at(first, of_row, rows)
    np.maximum.at(last, of_row, rows)
    segment = np.full(len(named), -1, np.int64)
    segment[rows] = of_row
    is_run = branch[names] < 0
    return Segments(
        segment,
        np.searchsorted(names, fleet.starts),
        first,
        last,
        np.bincount(of_row[~_is(fleet, *VIRTUAL_KINDS)[rows]], minlength=len(names)),
        np.where(is_run, entry[names], -1),
    )


def _branches(fleet: GivenFleet) -> Ints:
    """The first row of the branch that each row is in, or -1. One reader of each operator is in none."""
    rows = len(fleet.transformations)
    branches = np.full(rows, -1, np.int64)
    pure, kept = np.ones(rows, np.bool_), np.zeros(rows, np.bool_)
    inputs = (fleet.input_starts, fleet.inputs, _readers(fleet), _is(fleet, *SOURCE_KINDS))
    run_loop(_find_branches, rows, inputs, (branches, pure, kept))
    return branches


def _find_branches(
    input_starts: Ints, inputs: Ints, readers: Ints, source: Bools, branches: Ints, pure: Bools, kept: Bools
) -> None:
    """`pure`: all that follows from a row follows from it alone. `kept`: a reader of it is in no branch."""
    for row in range(len(branches) - 1, -1, -1):
        alone = pure[row] and input_starts[row + 1] - input_starts[row] == 1
        for place in range(input_starts[row], input_starts[row + 1]):
            if not alone:
                pure[inputs[place]] = False
                kept[inputs[place]] = True
    for row in range(len(branches)):
        if source[row] or input_starts[row + 1] - input_starts[row] != 1:
            continue
        read = inputs[input_starts[row]]
        if branches[read] >= 0:
            branches[row] = branches[read]
        elif pure[row] and readers[read] > 1:
            if kept[read]:
                branches[row] = row
            kept[read] = True


def _runs(fleet: GivenFleet) -> tuple[Ints, Ints]:
    """The last row of the run that each row is in, or -1; and what the run reads, for its last row."""
    readers = _readers(fleet)
    counts = np.diff(fleet.input_starts)
    transformations = fleet.transformations
    alone = (
        transformations["slot_sharing_group"].is_null() & transformations["co_location_group"].is_null()
    ).to_numpy()
    last = np.flatnonzero(_is(fleet, Kind.ONE_INPUT, Kind.ASYNC) & (counts == 1) & (readers == 1) & alone)
    passed = _is(fleet, Kind.PARTITION) & (readers == 1)
    at = fleet.inputs[fleet.input_starts[last]]
    steps = [(last, last)]
    going = passed[at]
    while going.any():
        steps.append((at[going], last[going]))
        at[going] = fleet.inputs[fleet.input_starts[at[going]]]
        going &= passed[at]
    parallelism = _effective(fleet, "parallelism")
    most = _effective(fleet, "max_parallelism")
    fits = ~_is(fleet, *VIRTUAL_KINDS)[at] & (parallelism[at] == parallelism[last]) & (most[at] == most[last])
    run_ends = np.full(len(transformations), -1, np.int64)
    entry = np.full(len(transformations), -1, np.int64)
    entry[last[fits]] = at[fits]
    for rows, runs in steps:
        kept = entry[runs] >= 0
        run_ends[rows[kept]] = runs[kept]
    return run_ends, entry


def _readers(fleet: GivenFleet) -> Ints:
    return np.bincount(fleet.inputs, minlength=len(fleet.transformations)).astype(np.int64)


def _is(fleet: GivenFleet, *kinds: Kind) -> Bools:
    flags: Bools = fleet.transformations["kind"].is_in([str(kind) for kind in kinds]).to_numpy()
    return flags


def _effective(fleet: GivenFleet, setting: str) -> Ints:
    """Parallelism or max parallelism of each row, the topology's where it sets none; -1 = not set."""
    sizes = np.diff(fleet.starts)
    of_job = np.repeat(fleet.topologies[setting].fill_null(-1).to_numpy(), sizes)
    own = fleet.transformations[setting]
    return np.where(own.is_null().to_numpy(), of_job, own.fill_null(-1).to_numpy()).astype(np.int64)
