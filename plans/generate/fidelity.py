"""Distances between the distributions of a drawn fleet and the original fleet."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.compiled import run_loop
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED
from penstock.plans.tables.column_types import TOPOLOGY

TOTAL_VARIATION = "total variation"
KOLMOGOROV_SMIRNOV = "Kolmogorov-Smirnov"

CLOSE = 0.05
"""A distance that always counts as close."""

RESAMPLED = 40
"""Number of fleets, resampled from the given topologies, that measure chance."""

NEEDED: Mapping[str, Sequence[str]] = {
    "topologies": (TOPOLOGY,),
    "stream_nodes": (TOPOLOGY, "id", "parallelism"),
    "stream_edges": (
        TOPOLOGY,
        "source",
        "target",
        "partitioner",
        "chainable",
        "chained_source",
        "not_chainable_reasons",
    ),
    "job_vertices": (TOPOLOGY, "vertex"),
    "chained_operators": (TOPOLOGY, "vertex"),
    "transformations": (TOPOLOGY, "kind"),
}
"""The columns of plans that are compared, by table."""

Frames = Mapping[str, pl.DataFrame]


class Distance(NamedTuple):
    """The distance of one distribution in [0, 1], by `measure`.

    `by_chance`: the bound that fleets resampled from the given topologies, as large as the drawn one, stay
    below in 19 of 20 cases.
    """

    distribution: str
    measure: str
    distance: float
    by_chance: float

    @property
    def is_close(self) -> bool:
        """At most CLOSE, or explained by chance."""
        return self.distance <= max(CLOSE, self.by_chance)


def fidelity(original: Frames, drawn: Frames, seed: int) -> list[Distance]:
    """Return the distance of each distribution of two plans (tables of NEEDED)."""
    distances = []
    order = original["topologies"].select(TOPOLOGY).unique().sort(TOPOLOGY)
    resampled = _resampled(len(order), len(drawn["topologies"]), seed)
    for name, (values, measure) in _DISTRIBUTIONS.items():
        before, after = values(original), values(drawn)
        if before.is_empty() and after.is_empty():
            continue
        categories = pl.concat([before["value"], after["value"]]).unique().sort()
        codes = _codes(before, categories)
        topology_of_value = order["topology_id"].search_sorted(before[TOPOLOGY]).to_numpy()
        shares = _shares(codes, len(categories))
        distance = _distance(shares, _shares(_codes(after, categories), len(categories)), measure)
        by_chance = [
            _distance(shares, _shares(codes, len(categories), weights[topology_of_value]), measure)
            for weights in resampled
        ]
        distances.append(Distance(name, measure, distance, float(np.quantile(by_chance, 0.95))))
    return distances


Floats = npt.NDArray[np.float64]
Values = Callable[[Frames], pl.DataFrame]


def _resampled(original_count: int, drawn_count: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the number of occurrences of each given topology in each of RESAMPLED fleets."""
    if not original_count:
        return np.zeros((RESAMPLED, 0), np.int64)
    return np.random.default_rng(seed % 2**63).multinomial(
        drawn_count, np.full(original_count, 1 / original_count), RESAMPLED
    )


def _codes(values: pl.DataFrame, categories: pl.Series) -> npt.NDArray[np.int64]:
    return categories.search_sorted(values["value"]).to_numpy().astype(np.int64)


def _shares(
    codes: npt.NDArray[np.int64], categories: int, weights: npt.NDArray[np.int64] | None = None
) -> Floats:
    counts = np.bincount(codes, weights=weights, minlength=categories).astype(np.float64)
    shares: Floats = counts / max(counts.sum(), 1.0)
    return shares


def _distance(shares: Floats, other_shares: Floats, measure: str) -> float:
    if measure == TOTAL_VARIATION:
        return float(np.abs(shares - other_shares).sum() / 2)
    return float(np.abs(np.cumsum(shares) - np.cumsum(other_shares)).max(initial=0.0))


def _per_topology(table: str) -> Values:
    def counted(frames: Frames) -> pl.DataFrame:
        counts = frames[table].group_by(TOPOLOGY).len("value")
        every = (
            frames["topologies"].select(TOPOLOGY).join(counts, on=TOPOLOGY, how="left", maintain_order="left")
        )
        return every.select(TOPOLOGY, pl.col("value").fill_null(0).cast(pl.Int64))

    return counted


def _column(table: str, value: pl.Expr) -> Values:
    return lambda frames: frames[table].select(TOPOLOGY, value.alias("value"))


def _edges_at(end: str) -> Values:
    """Return the number of edges into (`target`) or out of (`source`) each operator."""

    def counted(frames: Frames) -> pl.DataFrame:
        counts = frames["stream_edges"].group_by(TOPOLOGY, pl.col(end).alias("id")).len("value")
        nodes = frames["stream_nodes"].select(TOPOLOGY, "id")
        return nodes.join(counts, on=(TOPOLOGY, "id"), how="left", maintain_order="left").select(
            TOPOLOGY, pl.col("value").fill_null(0).cast(pl.Int64)
        )

    return counted


def _chain_lengths(frames: Frames) -> pl.DataFrame:
    return (
        frames["chained_operators"]
        .group_by(TOPOLOGY, "vertex")
        .len("value")
        .select(TOPOLOGY, pl.col("value").cast(pl.Int64))
    )


def _depths(frames: Frames) -> pl.DataFrame:
    """Return the edges on the longest path of each topology. Ids of transformations are in
    topological order.
    """
    nodes = frames["stream_nodes"].select(TOPOLOGY, "id").sort(TOPOLOGY, "id").with_row_index("place")
    edges = frames["stream_edges"].select(TOPOLOGY, "source", "target")
    for end in ("source", "target"):
        ends = nodes.select(
            TOPOLOGY, pl.col("id").alias(end), pl.col("place").cast(pl.Int64).alias(f"{end}_place")
        )
        edges = edges.join(ends, on=(TOPOLOGY, end), how="inner")
    edges = edges.sort("target_place")
    depth = np.zeros(len(nodes), np.int64)
    ends_of_edges = [edges[f"{end}_place"].to_numpy() for end in ("source", "target")]
    run_loop(_find_depths, len(edges), ends_of_edges, [depth])
    return nodes.with_columns(pl.Series("value", depth)).group_by(TOPOLOGY).agg(pl.col("value").max())


def _find_depths(
    source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], depth: npt.NDArray[np.int64]
) -> None:
    for edge in range(len(source)):
        if depth[source[edge]] >= depth[target[edge]]:
            depth[target[edge]] = depth[source[edge]] + 1


_CHAINED = "chained"
_reasons = (
    pl.when(IS_CHAINED).then(pl.lit(_CHAINED)).otherwise(pl.col("not_chainable_reasons").list.join(" + "))
)

_DISTRIBUTIONS: Mapping[str, tuple[Values, str]] = {
    "operators of a topology": (_per_topology("stream_nodes"), KOLMOGOROV_SMIRNOV),
    "edges of a topology": (_per_topology("stream_edges"), KOLMOGOROV_SMIRNOV),
    "job vertices of a topology": (_per_topology("job_vertices"), KOLMOGOROV_SMIRNOV),
    "longest path of a topology": (_depths, KOLMOGOROV_SMIRNOV),
    "inputs of an operator": (_edges_at("target"), KOLMOGOROV_SMIRNOV),
    "readers of an operator": (_edges_at("source"), KOLMOGOROV_SMIRNOV),
    "operators of a chain": (_chain_lengths, KOLMOGOROV_SMIRNOV),
    "kinds": (_column("transformations", pl.col("kind")), TOTAL_VARIATION),
    "parallelism of operators": (
        _column("stream_nodes", pl.col("parallelism").cast(pl.Int64)),
        KOLMOGOROV_SMIRNOV,
    ),
    "partitioners of edges": (_column("stream_edges", pl.col("partitioner")), TOTAL_VARIATION),
    "reasons against chaining": (_column("stream_edges", _reasons), TOTAL_VARIATION),
}
