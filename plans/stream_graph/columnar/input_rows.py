"""The rows of the inputs of transformations, and their kinds."""

from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.polars_frames import places
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind

KINDS = list(Kind)
FIRST_VIRTUAL = min(map(KINDS.index, VIRTUAL_KINDS))
"""Virtual kinds are the last ones."""

_WRITER = KINDS.index(Kind.WRITER)


class InputRows(NamedTuple):
    """Links between the rows of transformations, which are in any order."""

    order: Ints  #: all rows, those of one topology together and by id, so that inputs come first
    bounds: Ints  #: row r has the inputs bounds[r] to bounds[r + 1]
    rows: Ints  #: the row of each input
    kinds: Ints  #: of each row, as numbered by KINDS


def input_rows(transformations: pl.DataFrame) -> InputRows:
    """The inputs of all transformations. Ids are 1, 2, … in each topology of which no sink was expanded."""
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    lengths = transformations["inputs"].list.len().to_numpy()
    inputs = transformations["inputs"].explode(empty_as_null=False).to_numpy()
    kinds = transformations["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.int64)
    bounds = offsets(lengths)
    if (kinds == _WRITER).any():
        return _input_rows_by_id(transformations, bounds, kinds)
    own = np.arange(len(ids))
    first = ids == 1
    follows = (ids[1:] == ids[:-1] + 1) & (topologies[1:] == topologies[:-1])
    if first[:1].all() and (first[1:] | follows).all():
        return InputRows(own, bounds, np.repeat(own - ids, lengths) + inputs, kinds)
    order = np.lexsort((ids, topologies))
    own[order] = own.copy()
    return InputRows(order, bounds, order[np.repeat(own - ids, lengths) + inputs], kinds)


def _input_rows_by_id(transformations: pl.DataFrame, bounds: Ints, kinds: Ints) -> InputRows:
    """As `input_rows`, in the order of translation and with inputs that are looked up."""
    order = transformations.select(pl.arg_sort_by(TOPOLOGY, "position")).to_series().to_numpy()
    inputs = transformations.select(TOPOLOGY, pl.col("inputs").alias("input")).explode(
        "input", empty_as_null=False
    )
    rows = places(inputs, transformations, {"input": "id"})
    return InputRows(order.astype(np.int64), bounds, rows.astype(np.int64), kinds)


def offsets(lengths: Ints) -> Ints:
    """The starts of consecutive spans of these lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


# Which transformations are stream nodes.


def is_kind(*kinds: str) -> pl.Expr:
    """The kind is one of `kinds`. Comparing with each of a few takes a fraction of the time of is_in."""
    return pl.any_horizontal(pl.col("kind") == kind for kind in kinds)


_IS_PHYSICAL, _IS_SOURCE = ~is_kind(*VIRTUAL_KINDS), is_kind(*SOURCE_KINDS)


def node_rows(transformations: pl.DataFrame, resolved_inputs: pl.DataFrame) -> Ints:
    """The rows of the physical transformations, without sources that no transformation reads."""
    physical, source = (c.to_numpy() for c in transformations.select(p=_IS_PHYSICAL, s=_IS_SOURCE))
    read = np.zeros(len(source), bool)
    read[resolved_inputs["source_row"].to_numpy()] = True
    return np.flatnonzero(physical & (read | ~source))


# Stream edges know the rows of the nodes at their ends.


_ENDS = ("source", "target")


def find_edge_ends(
    resolved_inputs: pl.DataFrame,
    inherited_groups: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """One row per row of stream_edges: source_row and target_row, where its ends are among stream_nodes.

    On Spark, joins find them.
    """
    rows = inherited_groups["row"].to_numpy()
    nodes = np.empty(rows.max(initial=-1) + 1, np.int32)
    nodes[rows] = np.arange(len(rows))
    translated = pl.DataFrame(
        {f"{end}_row": nodes[resolved_inputs[f"{end}_row"].to_numpy()] for end in _ENDS}
    )
    if given_stream_edges.is_empty():
        return translated
    given_ends = {f"{end}_row": places(given_stream_edges, stream_nodes, {end: "id"}) for end in _ENDS}
    return pl.concat([translated, pl.DataFrame(given_ends)], rechunk=True)
