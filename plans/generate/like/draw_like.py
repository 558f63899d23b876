"""Topologies drawn after those of a given fleet."""

from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.generate.fleet import draws, hexadecimal
from penstock.plans.generate.like.find_segments import GivenFleet, Ints, Segments
from penstock.plans.tables import TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topology_tables import topology_id

SHARE_VARIED = 0.5
"""Of the pairs of segments, the share of which one is repeated and the other left out."""

METHOD = 1
"""Raised whenever a seed gives other topologies of the same fleet; part of the fingerprint."""


class DrawnLike(NamedTuple):
    """The tables `topologies` and `transformations`, and how many topologies have another shape."""

    tables: dict[str, pl.DataFrame]
    varied: int


def draw_like(fleet: GivenFleet, segments: Segments, seed: int, numbers: Ints) -> DrawnLike:
    """The topologies of these numbers (from 0) of the fleet that `seed` draws, in that order.

    A topology depends only on the given fleet, the seed and its number. It copies a random given topology
    with all its settings; some segments are repeated and as many are left out (see _copies).
    """
    owners = pl.DataFrame({"number": numbers})
    drawn = owners.select(draws(seed)("topology", pl.col("number"))).to_series().to_numpy()
    base = (drawn * len(fleet.topologies)).astype(np.int64)
    owner, row = _expanded(base, fleet.starts)
    copies = _copies(segments, seed, numbers, base)
    of_row = segments.of_row[row]
    segment_starts = _starts(np.diff(segments.starts)[base])
    place = segment_starts[owner] + of_row - segments.starts[base][owner]
    many = np.where(of_row >= 0, copies[np.where(of_row >= 0, place, 0)] if len(copies) else 1, 1)
    rows = _Rows(
        owner, row, many, _starts(many), _starts(np.diff(fleet.starts)[base])[:-1] - fleet.starts[base]
    )
    return DrawnLike(
        {
            "topologies": _topologies(fleet, seed, numbers, base),
            "transformations": _transformations(fleet, segments, rows, seed, numbers),
        },
        int(
            (
                np.bincount(_expanded(base, segments.starts)[0], weights=copies != 1, minlength=len(base)) > 0
            ).sum()
        ),
    )


class _Rows(NamedTuple):
    """The rows of what is followed: whose they are, given row, how many copies, where the first copy is."""

    owner: Ints
    row: Ints
    many: Ints
    starts: Ints
    shift: Ints  #: per owner: a given row's place here, minus the row


def _copies(segments: Segments, seed: int, numbers: Ints, base: Ints) -> Ints:
    """How many copies of each segment each drawn topology has.

    Segments of equal size are paired at random within a topology. In half of the pairs, one segment is
    repeated and the other left out, so a topology keeps its number of operators.
    """
    owner, segment = _expanded(base, segments.starts)
    keys = pl.DataFrame({"number": numbers[owner], "row": segments.first[segment]})
    place, varied = (
        keys.select(draws(seed)(salt, pl.col("number"), pl.col("row"))).to_series().to_numpy()
        for salt in ("place", "varied")
    )
    operators = segments.operators[segment]
    order = np.lexsort((place, operators, owner))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(owner[order]) != 0) | (np.diff(operators[order]) != 0)
    starts = np.flatnonzero(begins)
    in_group = np.arange(len(order)) - starts[np.cumsum(begins) - 1]
    second = np.flatnonzero(in_group % 2 == 1)
    chosen = second[varied[order[second]] < SHARE_VARIED]
    copies = np.ones(len(order), np.int64)
    copies[order[chosen - 1]] = 2
    copies[order[chosen]] = 0
    return copies


def _expanded(base: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """The position in `base` and the member, for the members of each topology in `base`."""
    counts = np.diff(starts)[base]
    owner = np.repeat(np.arange(len(base)), counts)
    first = np.repeat(starts[base] - _starts(counts)[:-1], counts)
    return owner, first + np.arange(len(owner))


def _starts(counts: npt.NDArray[np.generic]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _topologies(fleet: GivenFleet, seed: int, numbers: Ints, base: Ints) -> pl.DataFrame:
    names = [f"like-{seed}-{number:06}" for number in numbers.tolist()]
    originals = fleet.topologies[base]
    recipes = [
        f"like|{METHOD}|{seed}|{name}|{print_}"
        for name, print_ in zip(names, originals["fingerprint"], strict=True)
    ]
    return originals.with_columns(
        pl.Series(TOPOLOGY, [topology_id(name) for name in names], pl.Int64),
        pl.Series("name", names, pl.String),
        pl.Series("fingerprint", [sha256(recipe.encode()).hexdigest() for recipe in recipes], pl.String),
        source_file=pl.lit(None, pl.String),
        source_line=pl.lit(None, pl.Int64),
    ).select(TOPOLOGIES.names)


def _transformations(
    fleet: GivenFleet, segments: Segments, rows: _Rows, seed: int, numbers: Ints
) -> pl.DataFrame:
    at = np.repeat(np.arange(len(rows.row)), rows.many)
    copy = np.arange(len(at)) - rows.starts[:-1][at]
    # Copies come after the whole original, so that their inputs exist before them.
    original_rows, segment = rows.row[at], segments.of_row[rows.row[at]]
    preceding = np.where(
        copy > 0, segments.last[segment] if len(segments.last) else original_rows, original_rows
    )
    order = np.lexsort((original_rows, copy, preceding, rows.owner[at]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at, copy = at[order], copy[order]
    owner = rows.owner[at]
    first = np.searchsorted(owner, np.arange(len(numbers)))
    counts = np.diff(fleet.input_starts)[rows.row[at]]
    reader, read = _expanded(rows.row[at], fleet.input_starts)
    read_at, read_copy = _read(segments, rows, at[reader], copy[reader], fleet.inputs[read])
    inputs = place[rows.starts[read_at] + read_copy] - first[owner[reader]] + 1
    lists = pa.ListArray.from_arrays(_starts(counts).astype(np.int32), inputs.astype(np.int32))
    transformations = fleet.transformations[rows.row[at]].with_columns(
        pl.Series("number", numbers[owner]),
        pl.Series("row", rows.row[at]),
        pl.Series("copy", copy),
        pl.Series("id", np.arange(len(at)) - first[owner] + 1, pl.Int32),
        pl.Series("inputs", pl.Series(lists)),
    )
    ids = np.array([topology_id(f"like-{seed}-{number:06}") for number in numbers.tolist()], np.int64)
    keys = (pl.col("number"), pl.col("row"), pl.col("copy"))
    another = pl.concat_str(hexadecimal(seed, "uid hash 1", *keys), hexadecimal(seed, "uid hash 2", *keys))
    repeated = pl.col("copy") > 0
    return transformations.with_columns(
        pl.Series(TOPOLOGY, ids[owner], pl.Int64),
        uid=pl.when(repeated).then(pl.format("{} (copy {})", "uid", pl.col("copy") + 1)).otherwise("uid"),
        uid_hash=pl.when(repeated & pl.col("uid_hash").is_not_null()).then(another).otherwise("uid_hash"),
    ).select(TRANSFORMATIONS.names)


def _read(segments: Segments, rows: _Rows, at: Ints, copy: Ints, read: Ints) -> tuple[Ints, Ints]:
    """The inputs of the copies of rows whose originals read `read`: the place in `rows`, and the copy."""
    shift = rows.shift[rows.owner[at]]
    own, of_read = segments.of_row[rows.row[at]], segments.of_row[read]
    within = (own >= 0) & (own == of_read)
    entry = segments.entry if len(segments.entry) else np.full(1, -1, np.int64)
    follows = ~within & (own >= 0) & (copy > 0) & (entry[own] >= 0)
    last = segments.last if len(segments.last) else np.zeros(1, np.int64)
    read_rows = np.where(follows, last[own], read) + shift
    read_copies = np.where(within, copy, np.where(follows, copy - 1, 0))
    open_ = ~within & ~follows & (of_read >= 0)
    while open_.any():  # a run's reader reads its last copy, or the run's own input if the run is left out
        places = np.flatnonzero(open_)
        many = rows.many[read_rows[places]]
        read_copies[places] = np.maximum(many - 1, 0)
        left_out = places[many == 0]
        open_[places] = False
        segment = segments.of_row[rows.row[read_rows[left_out]]]
        read_rows[left_out] = entry[segment] + shift[left_out]
        open_[left_out] = segments.of_row[rows.row[read_rows[left_out]]] >= 0
    return read_rows, read_copies
