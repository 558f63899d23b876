"""How good the plans of planners are: speed and metrics on the same topologies, in this process."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock.engine.planning.custom_planners import question
from penstock.engine.planning.find_custom_planners import (
    find_custom_planners,
    name_of_planner,
    names_custom_planner,
)
from penstock.engine.planning.plan_by_custom_planners import Question, plan_by_custom_planners
from penstock.engine.planning.plan_in_process import ReadTopologies, plan_frames, read_in_process
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import Choices
from penstock.plans.metrics.plan_metrics import (
    ESTIMATED,
    METRICS,
    MODEL_ERROR,
    NEEDED,
    fleet_metrics,
    plan_metrics,
)
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants
from penstock.plans.planners.plan_in_parts import split_into
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.vocabulary import Layer

FLINKS_RULES = ("flink", "columnar")
"""Names of Flink's own rules. The columnar planner makes Flink's plans, so Flink need not run."""

ROWS_OF_A_PART = 300_000
"""Transformations or stream nodes that are planned at a time; a topology is never split."""


class PlannerQuality(NamedTuple):
    """One planner's plans: seconds, counts and reasons of rejections; plan_metrics by topology's name."""

    summary: dict[str, Any]
    plans: pl.DataFrame


class MeasuredQuality(NamedTuple):
    """The results of a case: `summary` for people and JSON, and plan_metrics by planner."""

    summary: dict[str, Any]
    plans: dict[str, pl.DataFrame]


def require_planners(planners: Sequence[Any]) -> None:
    """ConfigurationError unless each is Flink's rules or a custom planner that can be loaded."""
    for name in planners:
        if isinstance(name, str) and name not in FLINKS_RULES and not names_custom_planner(name):
            raise ConfigurationError(
                f"--planner {name}: allowed {', '.join(FLINKS_RULES)}, or a planner of your own",
                "package.module:function, or an entry point of the group penstock.planners",
            )
        if name not in FLINKS_RULES:
            find_custom_planners(name)


def measure_quality(
    path: Path,
    planners: Sequence[Any],
    costs: str | None,
    choices: Choices,
    seconds: float,
    report: Callable[[str], None] = lambda stage: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    constants: Constants = CONSTANTS,
) -> MeasuredQuality:
    """Plan the topologies of `path` by each planner, and compare all with the first one by topology.

    `planners`: as find_custom_planners takes them, or FLINKS_RULES. `costs`: see
    engine.planning.custom_planners.question. `seconds`: time limit of a planner for a batch.
    """
    read = read_in_process(str(path), report, job_defaults=job_defaults)
    asked = question(costs, read.frames["topologies"], seconds, constants=constants)
    measured = {}
    for planner in planners:
        name = name_of_planner(planner)
        report(f"plan by {name}, and measure")
        measured[name] = plan_and_measure(read, planner, asked, choices)
    return compare_all(read.inputs, measured, report)


def compare_all(
    inputs: int, measured: Mapping[str, PlannerQuality], report: Callable[[str], None]
) -> MeasuredQuality:
    """Plans of the same topologies by several planners, compared with the first one's by topology."""
    plans = {name: of_planner.plans for name, of_planner in measured.items()}
    rows: list[dict[str, Any]] = [
        {"planner": name, **of_planner.summary, "fleet": fleet_metrics(of_planner.plans).to_dicts()}
        for name, of_planner in measured.items()
    ]
    base, *others = plans
    compared = []
    for other in others:
        report(f"compare {other}")
        both = plans[base].join(plans[other], on="topology_id", how="semi")
        compared.append(
            {"base": base, "other": other, "topologies": len(both),
             "metrics": compare_quality(plans[base], plans[other])}
        )  # fmt: skip
    return MeasuredQuality({"inputs": inputs, "planners": rows, "compared": compared}, plans)


def plan_and_measure(read: ReadTopologies, planner: Any, asked: Question, choices: Choices) -> PlannerQuality:
    """Plan what was read by Flink's rules or somebody's planner, and measure the plans.

    That is done part by part, of which only metrics are kept: memory grows with the topologies that were
    read, not with their plans.
    """
    rows = len(read.frames["transformations"]) + len(read.frames["stream_nodes"])
    parts = split_into(read.frames, ceil(rows / ROWS_OF_A_PART))
    measured = [_plan_and_measure(part, planner, asked, choices) for part in parts]
    return put_together([part.summary for part in measured], [part.plans for part in measured])


def put_together(summaries: Sequence[Mapping[str, Any]], plans: Sequence[pl.DataFrame]) -> PlannerQuality:
    """One planner's results over all parts; seconds are added up."""
    rejected_for: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for summary in summaries:
        rejected_for.update(summary["rejected_for"])
        for rule, example in summary["rejected_as"].items():
            examples[rule] = min(example, examples.get(rule, example))
    counts = ("planning_seconds", "metrics_seconds", "planned", "rejected")
    return PlannerQuality(
        {
            **{name: sum(summary[name] for summary in summaries) for name in counts},
            "rejected_for": dict(sorted(rejected_for.items())),
            "rejected_as": dict(sorted(examples.items())),
        },
        pl.concat(plans).sort("name"),
    )


def _plan_and_measure(
    frames: dict[str, pl.DataFrame], planner: Any, asked: Question, choices: Choices
) -> PlannerQuality:
    inputs = len(frames["topologies"]) + len(frames["rejected"])
    # A planner that is named is loaded before: starting its process is no planning.
    custom_planners = [] if planner in FLINKS_RULES else find_custom_planners(planner)
    started = time.monotonic()
    if not custom_planners:
        planned = plan_frames(frames, inputs, Layer.SLOTS, choices, lambda stage: None)
    else:
        planned = plan_by_custom_planners(frames, inputs, custom_planners, choices=choices, question=asked)
    planning_seconds = time.monotonic() - started
    started = time.monotonic()
    tables = {table: from_arrow(planned.tables[table]) for table in NEEDED}
    costs = asked.costs(tables["stream_nodes"], tables["stream_edges"])
    quality = plan_metrics(tables, costs, choices.task_manager, choices.network, asked.constants)
    rejected = from_arrow(planned.tables["rejected"].select(["error_stage", "error", "name", "message"]))
    by_planner = rejected.filter(pl.col("error_stage") == "planner").sort("name")
    first = by_planner.unique("error", keep="first", maintain_order=True)
    return PlannerQuality(
        {
            "planning_seconds": planning_seconds,
            "metrics_seconds": time.monotonic() - started,
            "planned": planned.planned,
            "rejected": planned.rejected,
            "rejected_for": dict(by_planner.group_by("error").len().iter_rows()),
            "rejected_as": {rule: [name, said] for rule, name, said in first[:, 1:].iter_rows()},
        },
        quality.plans,
    )


# Plans of two planners compared topology by topology.


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
