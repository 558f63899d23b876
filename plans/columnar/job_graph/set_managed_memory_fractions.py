"""Operators know their share of a slot's managed memory."""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from plans.columnar.frames import TOPOLOGY, join_topology, rename
from plans.columnar.groups import groups, ints, number_within
from plans.columnar.job_graph.assign_operators_to_vertices import hex_id
from plans.execution_graph.job_graph_arrays import Flags
from plans.job_graph.set_managed_memory_fractions import SLOT_SCOPE
from plans.vocabulary import ManagedMemoryUseCase

_OPERATOR = ManagedMemoryUseCase.OPERATOR.value
_SLOT_SCOPE = [use_case.value for use_case in SLOT_SCOPE]
_DECIMALS = 16


def set_managed_memory_fractions(operators: pl.DataFrame, named_vertices: pl.DataFrame) -> pl.DataFrame:
    """The chained operators of all vertices. As plans.job_graph.set_managed_memory_fractions."""
    in_chain = pl.col("chain_index") > 0
    of_chains = groups(operators.select(TOPOLOGY, "vertex", in_chain), "vertex", "chain_index")
    orders, _ = number_within(of_chains, ints(operators, "postorder"))
    return operators.select(
        TOPOLOGY,
        "vertex",
        "node",
        hex_id(operators["id_lower"], operators["id_upper"]).alias("operator_id"),
        pl.col("uid_hash").str.to_lowercase().alias("user_defined_operator_id"),
        "name",
        "chain_index",
        pl.when(in_chain).then(pl.Series(values=orders, dtype=pl.Int32)).alias("operator_order"),
        _fractions(operators, named_vertices).alias("managed_memory_fraction"),
        "input_format",
        "output_format",
    )


def _fractions(operators: pl.DataFrame, named_vertices: pl.DataFrame) -> pl.Series:
    """Use case to fraction, of every use case of the operator's slot sharing group."""
    own = operators.select(
        TOPOLOGY,
        "vertex",
        (pl.col("managed_memory").map.len() > 0).alias("weighs"),
        pl.col("managed_memory").map.get(_OPERATOR).fill_null(0).cast(pl.Int64).alias("weight"),
        *(pl.col("slot_scope").list.contains(use_case).alias(use_case) for use_case in _SLOT_SCOPE),
    )
    demanding = pl.any_horizontal("weighs", *_SLOT_SCOPE)
    if not own.select(demanding.any()).item():
        nothing = np.zeros((len(operators), 1))
        return _maps(nothing > 0, nothing, [_OPERATOR])
    group_of = rename(named_vertices, vertex="vertex", slot_sharing_group="slot_sharing_group")
    grouped = join_topology(own, group_of, {"vertex": "vertex"}, "left")
    of_groups = (
        grouped.filter(demanding)
        .group_by(TOPOLOGY, "slot_sharing_group")
        .agg(
            pl.when(pl.col("weighs").any()).then(pl.col("weight").sum()).alias("group_weight"),
            *(pl.col(use_case).any().alias(f"group_{use_case}") for use_case in _SLOT_SCOPE),
        )
    )
    shared = join_topology(grouped, of_groups, {"slot_sharing_group": "slot_sharing_group"}, "left")
    pairs = (
        shared.filter((pl.col("weight") > 0) & pl.col("group_weight").is_not_null())
        .select("weight", "group_weight")
        .unique()
        .with_columns(_fraction_rounded_down().alias("fraction"))
    )
    weighed = shared.join(pairs, on=["weight", "group_weight"], how="left", maintain_order="left")
    return _maps(
        weighed.select(
            pl.col("group_weight").is_not_null(),
            *(pl.col(f"group_{use_case}").fill_null(False) for use_case in _SLOT_SCOPE),
        ).to_numpy(),
        weighed.select(
            pl.col("fraction").fill_null(0.0),
            *(pl.col(use_case).cast(pl.Float64) for use_case in _SLOT_SCOPE),
        ).to_numpy(),
        [_OPERATOR, *_SLOT_SCOPE],
    )


def _fraction_rounded_down() -> pl.Expr:
    """weight / group_weight cut off behind the 16th decimal: exact in 128 bits, then read as a decimal."""
    one = 10**_DECIMALS
    scaled = pl.col("weight").cast(pl.Int128) * one // pl.col("group_weight")
    decimals = (scaled % one).cast(pl.Int64).cast(pl.String).str.zfill(_DECIMALS)
    return pl.concat_str((scaled // one).cast(pl.String), pl.lit("."), decimals).cast(pl.Float64)


def _maps(present: Flags, values: npt.NDArray[np.float64], keys: list[str]) -> pl.Series:
    """A map a row: each key (a column of `present` and `values`) that is present, to its value."""
    bounds = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    of_entries = np.broadcast_to(np.arange(len(keys)), present.shape)[present]
    entries = pa.MapArray.from_arrays(
        bounds, pa.array(keys, pa.string()).take(pa.array(of_entries)), pa.array(values[present])
    )
    return pl.Series(values=entries)
