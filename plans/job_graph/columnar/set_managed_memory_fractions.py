"""Fractions of managed memory of operators, and the weights for which Flink fails to compute them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.polars_refusals import ILLEGAL_ARGUMENT, NO_REASON, refusals
from penstock.plans.job_graph.columnar.create_vertices import HEAD
from penstock.plans.job_graph.java_hashes import java_double
from penstock.plans.job_graph.refuse_job_graphs import (
    ARITHMETIC,
    BIG_INTEGER_BY_ZERO,
    LOAD_FACTOR,
    LONG_BY_ZERO,
    MAX_INT,
    MAX_LONG_WEIGHT,
    NOT_A_FRACTION,
    SMALLEST_TABLE,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.operator_rules import SLOT_SCOPE
from penstock.plans.vocabulary import Layer, ManagedMemoryUseCase

_OPERATOR = ManagedMemoryUseCase.OPERATOR.value
_SLOT_SCOPE = [use_case.value for use_case in SLOT_SCOPE]
_USE_CASES = [_OPERATOR, *_SLOT_SCOPE]
_DECIMALS = 16


def set_managed_memory_fractions(operators: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The chained operators of all vertices.

    Columns and source: see joins.set_managed_memory_fractions.

    Example: tests/passes/fixtures/chained_operators.txt.
    """
    of_groups = job_vertices["group_place"].to_numpy()[operators["vertex_place"].to_numpy()]
    uses = memory_uses(operators)
    groups = uses_together(uses, of_groups, int(of_groups.max(initial=-1)) + 1)
    return chained_operators(operators, uses, groups, of_groups)


class MemoryUses(NamedTuple):
    """Managed memory that operators, or groups of them, use."""

    weights: Ints  #: the weight of use case OPERATOR; 0 for none
    uses: Flags  #: a column for each of _USE_CASES


def memory_uses(operators: pl.DataFrame) -> MemoryUses:
    """The uses of each operator. In: managed_memory, slot_scope."""
    weights, uses = np.zeros(len(operators), np.int64), np.zeros((len(operators), len(_USE_CASES)), np.bool_)
    weighing = np.flatnonzero((operators["managed_memory"].map.len() > 0).to_numpy())
    uses[weighing, 0] = True
    if len(weighing):
        own = operators["managed_memory"][weighing].map.get(_OPERATOR).fill_null(0).cast(pl.Int64)
        weights[weighing] = own.to_numpy()
    scoped = np.flatnonzero((operators["slot_scope"].list.len() > 0).to_numpy())
    scopes = operators["slot_scope"][scoped]
    for place, use_case in enumerate(_SLOT_SCOPE, 1):
        uses[scoped[scopes.list.contains(use_case).to_numpy()], place] = True
    return MemoryUses(weights, uses)


def uses_together(of_rows: MemoryUses, places: Ints, count: int) -> MemoryUses:
    """The uses of `count` groups together; the rows are in the groups `places`."""
    weights, uses = np.zeros(count, np.int64), np.zeros((count, len(_USE_CASES)), np.bool_)
    np.add.at(weights, places, of_rows.weights)
    for use_case, column in enumerate(of_rows.uses.T):
        uses[places[column], use_case] = True
    return MemoryUses(weights, uses)


def chained_operators(
    operators: pl.DataFrame, uses: MemoryUses, groups: MemoryUses, of_groups: Ints
) -> pl.DataFrame:
    """The chained operators, which use `uses` and are in the slot sharing groups `of_groups` of `groups`."""
    in_chain = pl.col("chain_index") >= HEAD
    return operators.select(
        TOPOLOGY,
        "vertex",
        "node",
        "operator_id",
        pl.col("uid_hash").str.to_lowercase().alias("user_defined_operator_id"),
        "name",
        "chain_index",
        pl.when(in_chain).then("operator_order").alias("operator_order"),
        _fractions(uses, groups, of_groups).alias("managed_memory_fraction"),
        "input_format",
        "output_format",
    )


def _fractions(uses: MemoryUses, groups: MemoryUses, of_groups: Ints) -> pl.Series:
    """Use case to fraction, of every use case of the operator's slot sharing group."""
    fractions = uses.uses.astype(np.float64)
    weighing = np.flatnonzero(uses.uses[:, 0])
    if len(weighing):
        fractions[weighing, 0] = _divide_weights(uses.weights[weighing], groups.weights[of_groups[weighing]])
    return _maps(groups.uses, of_groups, fractions)


def _divide_weights(weights: Ints, group_weights: Ints) -> pl.Series:
    """The fraction that each operator's weight is of the sum of its group's."""
    pairs = pl.DataFrame({"weight": weights, "group_weight": group_weights}).with_columns(
        wrapped(pl.col("group_weight"))
    )
    fractions = (
        pairs.filter((pl.col("weight") > 0) & (pl.col("group_weight") != 0))
        .unique()
        .with_columns(fraction_rounded_down())
    )
    matched = pairs.join(fractions, on=["weight", "group_weight"], how="left", maintain_order="left")
    return matched["fraction"].fill_null(0.0)


def wrapped(total: pl.Expr) -> pl.Expr:
    """A sum as Flink's int holds it."""
    return (total + 2**31) % 2**32 - 2**31


def fraction_rounded_down() -> pl.Expr:
    """weight / group_weight cut off after the 16th decimal: exact in 128 bits, then read as a decimal."""
    unit = 10**_DECIMALS
    scaled = pl.col("weight").cast(pl.Int128) * unit // pl.col("group_weight").abs()
    decimals = (scaled % unit).cast(pl.Int64).cast(pl.String).str.zfill(_DECIMALS)
    sign = pl.when(pl.col("group_weight") < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    digits = pl.concat_str(sign, (scaled // unit).cast(pl.String), pl.lit("."), decimals)
    return digits.cast(pl.Float64).alias("fraction")


def _maps(in_groups: Flags, of_groups: Ints, fractions: npt.NDArray[np.float64]) -> pl.Series:
    """One map per row: each use case (a column) that is in the row's group, to the row's fraction."""
    bounds = np.append(0, np.cumsum(in_groups.sum(axis=1)[of_groups])).astype(np.int32)
    rows = np.flatnonzero(bounds[1:] > bounds[:-1])
    entries = np.flatnonzero(in_groups[of_groups[rows]])
    of_entries = pl.Series(entries % len(_USE_CASES), dtype=pl.get_index_type())
    keys = pl.Series(_USE_CASES).gather(of_entries).to_arrow()
    values = pa.array(fractions[rows].ravel()[entries])
    return pl.Series(values=pa.MapArray.from_arrays(bounds, keys, values))


_GROUP = [TOPOLOGY, "slot_sharing_group"]


def refuse_memory_fractions(
    operators: pl.DataFrame, job_vertices: pl.DataFrame, precedence: int
) -> pl.DataFrame:
    """The reasons of weights whose sum overflows.

    Columns and source: see joins.refuse_memory_fractions.
    """
    weight = pl.col("managed_memory").map.get(ManagedMemoryUseCase.OPERATOR.value).cast(pl.Int64)
    weighing = operators.select(TOPOLOGY, "vertex", "managed_memory").filter(
        pl.col("managed_memory").map.len() > 0
    )
    if weighing.select(weight.sum()).item() <= MAX_INT:
        return NO_REASON
    vertices = job_vertices.select(*_GROUP, "vertex", "vertex_id")
    summed = weighing.select(TOPOLOGY, "vertex", weight.alias("weight")).join(
        vertices, on=[TOPOLOGY, "vertex"]
    )
    sums = summed.group_by(_GROUP).agg(pl.col("weight").sum().alias("sum")).filter(pl.col("sum") > MAX_INT)
    in_groups = vertices.join(sums, on=_GROUP).with_columns(
        _place(_id_hash(), pl.len().over(_GROUP)).alias("vertex_place")
    )
    topologies = sums.select(TOPOLOGY).unique()
    of_topologies = operators.select(TOPOLOGY, "vertex", "node", "managed_memory").join(
        topologies, on=TOPOLOGY, how="semi"
    )
    placed = (
        of_topologies.select(TOPOLOGY, "vertex", "node", weight.fill_null(0).alias("weight"))
        .join(in_groups, on=[TOPOLOGY, "vertex"])
        .with_columns(
            _place(pl.col("node"), pl.len().over(TOPOLOGY, "vertex")).alias("node_place"),
            wrapped(pl.col("sum")).alias("group_weight"),
        )
        .filter(pl.col("weight") > 0)
    )
    divided = placed.filter(pl.col("group_weight") != 0).with_columns(fraction_rounded_down())
    wrong = divided.filter(~pl.col("fraction").is_between(0, 1))
    message = wrong["fraction"].map_elements(lambda value: NOT_A_FRACTION + java_double(value), pl.String)
    by_zero = placed.filter(pl.col("group_weight") == 0)
    in_long = pl.col("weight") <= MAX_LONG_WEIGHT
    zero_message = pl.when(in_long).then(pl.lit(LONG_BY_ZERO)).otherwise(pl.lit(BIG_INTEGER_BY_ZERO))
    rows = pl.concat(
        [
            wrong.drop("fraction").with_columns(
                pl.lit(ILLEGAL_ARGUMENT).alias("error"), message.alias("message")
            ),
            by_zero.with_columns(pl.lit(ARITHMETIC).alias("error"), zero_message.alias("message")),
        ]
    )
    places = ("slot_sharing_group", "vertex_place", "vertex", "node_place", "node")
    return refusals(
        rows,
        Layer.JOB_GRAPH,
        [pl.lit(precedence), *map(pl.col, places)],
        pl.col("error"),
        pl.col("message"),
        pl.concat_str(pl.lit("node "), "node"),
    )


def _id_hash() -> pl.Expr:
    """AbstractID.hashCode: the exclusive or of its four words."""
    words = [pl.col("vertex_id").str.slice(8 * word, 8).str.to_integer(base=16) for word in range(4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def _place(hash_code: pl.Expr, count: pl.Expr) -> pl.Expr:
    """The place of an element in a hash set of `count` elements."""
    bits = pl.max_horizontal(pl.lit(SMALLEST_TABLE), (count / LOAD_FACTOR).log(2).ceil().cast(pl.Int64))
    mask = pl.lit(2, pl.Int64).pow(bits).cast(pl.Int64) - 1
    word = hash_code.cast(pl.Int64)
    return (word ^ (word // (1 << 16))) & mask
