"""Plans of two planners compared topology by topology."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from penstock.plans.metrics.plan_metrics import ESTIMATED, METRICS, MODEL_ERROR
from penstock.plans.tables.column_types import TOPOLOGY

RESAMPLES = 1_000
GROUPS = 2_000
"""More differences than this are resampled in this many groups of equal size."""

ROUNDING = 1e-9
"""Sums that are added up in another order differ in their last digits."""

EXTREMES = 3
BARS = 24


def compare_quality(base: pl.DataFrame, other: pl.DataFrame, seed: int = 1) -> list[dict[str, Any]]:
    """One entry for each metric that has a better side, over the topologies that both planners planned.

    `base`, `other`: plan_metrics. Rates that differ by less than MODEL_ERROR are equal. `difference` is the
    mean of other - base, `low` and `high` its 95% bootstrap interval (of RESAMPLES resamples); `better`,
    `equal`, `worse` count topologies; `gains` and `losses` are the extremes by name; `bars` the
    distribution of the differences that are not zero.
    """
    both = base.join(other, on=TOPOLOGY, suffix=" of other").sort("name")
    names = both["name"].to_list()
    random = np.random.default_rng(seed)
    compared = []
    for metric, (direction, about) in METRICS.items():
        if not direction:
            continue
        was, now = (both[column].cast(pl.Float64).to_numpy() for column in (metric, f"{metric} of other"))
        known = np.isfinite(was) & np.isfinite(now)
        differences = np.where(known, now - was, 0.0)
        allowed = MODEL_ERROR if metric in ESTIMATED else ROUNDING
        differences[np.abs(differences) <= allowed * np.maximum(np.abs(was), np.abs(now))] = 0.0
        gain = differences if direction == "more" else -differences
        low, high = bootstrap_interval(differences[known], random)
        compared.append(
            {
                "metric": metric,
                "about": about,
                "better_is": direction,
                "base": _mean(was[known]),
                "other": _mean(now[known]),
                "difference": _mean(differences[known]),
                "low": low,
                "high": high,
                "better": int((gain > 0).sum()),
                "equal": int((gain == 0).sum()),
                "worse": int((gain < 0).sum()),
                "gains": _extremes(names, differences, gain),
                "losses": _extremes(names, differences, -gain),
                "bars": _bars(differences[differences != 0]),
            }
        )
    return compared


def bootstrap_interval(values: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of the mean of `values`: percentiles over resamples."""
    if not len(values):
        return 0.0, 0.0
    shuffled = random.permutation(values)
    groups = np.array_split(shuffled, min(len(shuffled), GROUPS))
    means = np.array([group.mean() for group in groups])
    drawn = random.integers(len(means), size=(RESAMPLES, len(means)))
    low, high = np.percentile(means[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _extremes(names: list[str], differences: np.ndarray, gain: np.ndarray) -> list[dict[str, Any]]:
    order = np.argsort(-gain, kind="stable")[:EXTREMES].tolist()
    return [{"topology": names[row], "difference": float(differences[row])} for row in order if gain[row] > 0]


def _bars(differences: np.ndarray) -> Mapping[str, list[float]]:
    if not len(differences):
        return {"counts": [], "edges": []}
    low, high = float(differences.min()), float(differences.max())
    size = max(abs(low), abs(high))
    if high - low < 1e-6 * size:  # bars as narrow as that are no floats
        low, high = low - 1e-6 * size, high + 1e-6 * size
    counts, edges = np.histogram(differences, bins=BARS, range=(low, high))
    return {"counts": counts.tolist(), "edges": edges.tolist()}
