"""Measure speed and quality of planners' plans on the same topologies."""

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Column

from penstock.engine.machine.replace_file import replace_file
from penstock.engine.measure.bench.measure_suites import draw_differences
from penstock.engine.measure.bench.planners import OTHER_NAMES, PLANNERS
from penstock.engine.measure.bench.print_results import render_template
from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.find_custom_planners import (
    find_custom_planners,
    name_of_planner,
    names_custom_planner,
    send_planners,
)
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    memory_of_workers,
    require_memory_of_workers,
    rows_at_once,
)
from penstock.engine.planning.plan_by_custom_planners import (
    CallSettings,
    call_settings,
    plan_by_custom_planners,
)
from penstock.engine.planning.plan_in_process import plan_in_process, read_in_process
from penstock.engine.planning.plan_in_workers import Size, call_in_workers, count_inputs, count_rows
from penstock.engine.planning.plan_on_spark import read_topologies
from penstock.engine.planning.plan_result import require_nothing_lost
from penstock.engine.planning.planning_settings import ROWS_PER_PARTITION, partitions_for, planning_settings
from penstock.engine.planning.print_metrics import number
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_schemas import free, is_local
from penstock.plans.layers import PlanOptions
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
from penstock.plans.planners.plan_packed_tables import PlanPart
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.on_spark.topologies_of_lines import GivenTables
from penstock.plans.topology.on_spark.topologies_of_lines import TopologyTables as TopologyTablesOnSpark
from penstock.plans.topology.topologies_of_lines import TopologyTables

if TYPE_CHECKING:
    from penstock.plans.planners.plan_in_parts import InParts


_FLINKS_RULES = (*reversed(PLANNERS), *OTHER_NAMES)
"""Names of Flink's own rules. Penstock's planners make Flink's plans, so Flink need not run."""

ROWS_OF_A_PART = 300_000
"""Transformations or stream nodes planned at a time, approximately; a topology is never split."""


class PlannerQuality(NamedTuple):
    """Seconds, counts, reasons of rejections and plan_metrics by topology name of one planner's plans."""

    summary: dict[str, Any]
    plans: pl.DataFrame


class MeasuredQuality(NamedTuple):
    """Results of a case, with a `summary` for people and JSON, and plan_metrics by planner."""

    summary: dict[str, Any]
    plans: dict[str, pl.DataFrame]


def require_planners(planners: Sequence[Any]) -> None:
    """Raise ConfigurationError unless each is Flink's rules or a custom planner that can be loaded."""
    for name in planners:
        if isinstance(name, str) and name not in _FLINKS_RULES and not names_custom_planner(name):
            raise ConfigurationError(
                f"--planner must be one of {', '.join(reversed(PLANNERS))}, or a custom planner, got {name}",
                "package.module:function, or an entry point of the group penstock.planners",
            )
        if name not in _FLINKS_RULES:
            find_custom_planners(name)


def measure_quality(
    path: Path,
    planners: Sequence[Any],
    costs: str | None,
    options: PlanOptions,
    seconds: float,
    report: Report = SILENT,
    constants: Constants = CONSTANTS,
) -> MeasuredQuality:
    """Plan the topologies of `path` by each planner, and compare all with the first one by topology.

    `planners`: as find_custom_planners takes them, or FLINKS_RULES. `costs`: see
    engine.planning.custom_planners.question. `seconds`: time limit of a planner for a batch.
    """
    read = read_in_process(str(path), options, report)
    settings = call_settings(costs, read.topologies, seconds, constants=constants)
    measured = {}
    for planner in planners:
        name = name_of_planner(planner)
        report(f"plan by {name}, and measure")
        measured[name] = plan_and_measure(read, planner, settings, options)
    return _compare_all(read.inputs, measured, report)


def _compare_all(inputs: int, measured: Mapping[str, PlannerQuality], report: Report) -> MeasuredQuality:
    """Compare plans of the same topologies by several planners with the first planner's, by topology."""
    plans = {name: planner_quality.plans for name, planner_quality in measured.items()}
    rows: list[dict[str, Any]] = [
        {"planner": name, **planner_quality.summary, "fleet": fleet_metrics(planner_quality.plans).to_dicts()}
        for name, planner_quality in measured.items()
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


def plan_and_measure(
    read: TopologyTables, planner: Any, settings: CallSettings, options: PlanOptions
) -> PlannerQuality:
    """Plan topologies by Flink's rules or a custom planner, and measure the plans.

    Topologies are planned part by part, and only metrics of each part are kept: memory grows with the
    topologies, not with their plans.
    """
    frames = read._asdict()
    del frames["inputs"]
    parts = split_into(frames, ceil((len(read.transformations) + len(read.stream_nodes)) / ROWS_OF_A_PART))
    measured = [_plan_and_measure(TopologyTables.of(part), planner, settings, options) for part in parts]
    return _put_together([part.summary for part in measured], [part.plans for part in measured])


def _put_together(summaries: Sequence[Mapping[str, Any]], plans: Sequence[pl.DataFrame]) -> PlannerQuality:
    """Combine one planner's results over all parts; seconds are summed."""
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
    read: TopologyTables, planner: Any, settings: CallSettings, options: PlanOptions
) -> PlannerQuality:
    # A custom planner given by name is loaded before: starting its process does not count as planning.
    custom_planners = [] if planner in _FLINKS_RULES else find_custom_planners(planner)
    started = time.monotonic()
    if not custom_planners:
        planned = plan_in_process(read, options)
    else:
        planned = plan_by_custom_planners(read, custom_planners, options, settings)
    planning_seconds = time.monotonic() - started
    started = time.monotonic()
    tables = {table: from_arrow(planned.tables[table]) for table in NEEDED}
    costs = settings.costs(tables["stream_nodes"], tables["stream_edges"])
    quality = plan_metrics(tables, costs, options.task_manager, options.network, settings.constants)
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
            "rejected_as": {rule: [name, message] for rule, name, message in first[:, 1:].iter_rows()},
        },
        quality.plans,
    )


# Plans of two planners, compared topology by topology.


RESAMPLES = 1_000
_SEED = 1
GROUPS = 2_000
"""Larger numbers of differences are resampled in this many groups of equal size."""

ROUNDING = 1e-9
"""Sums added up in another order differ in their last digits."""

EXTREMES = 3
BARS = 24


def compare_quality(base: pl.DataFrame, other: pl.DataFrame) -> list[dict[str, Any]]:
    """Compare the metrics that have a better direction over the topologies that both planners planned.

    `base` and `other` are plan_metrics. Returns one entry per metric. Rates that differ by less than
    MODEL_ERROR are equal. `difference` is the mean of other - base, `low` and `high` its 95% bootstrap
    interval (of RESAMPLES resamples); `better`, `equal`, `worse` count topologies; `gains` and `losses` are
    the extremes by name; `bars` is the distribution of the nonzero differences.
    """
    both = base.join(other, on=TOPOLOGY, suffix=" of other").sort("name")
    names = both["name"].to_list()
    random = np.random.default_rng(_SEED)
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
    """Return the 95% interval of the mean of `values` from percentiles over resamples."""
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
    if high - low < 1e-6 * size:  # narrower bars have no float boundaries
        low, high = low - 1e-6 * size, high + 1e-6 * size
    counts, edges = np.histogram(differences, bins=BARS, range=(low, high))
    return {"counts": counts.tolist(), "edges": edges.tolist()}


# Quality of plans, measured in Spark's workers: only metrics come back, one row per topology.


_PLANS, _SUMMARY = "plans", "summary"


def measure_quality_on_spark(
    spark: SparkSession,
    path: Path,
    planners: Sequence[str],
    costs: str | None,
    options: PlanOptions,
    seconds: float,
    report: Report = SILENT,
    constants: Constants = CONSTANTS,
) -> MeasuredQuality:
    """Like measure_quality, with the same rows. A planner gets the topologies of one partition at a time.

    Modules of planners are sent to the workers; topologies and costs must exist where these run. Seconds are
    sums over all partitions, divided by the number of partitions that run at once. Raises
    LostTopologiesError, and NotEnoughMemoryError if a local Spark's workers need more memory than is free.
    """
    send_planners(
        spark, [p for name in planners if name not in _FLINKS_RULES for p in find_custom_planners(name)]
    )
    report("read topologies")
    topologies = read_topologies(spark, path, options)
    rows, largest, *_ = count_rows(topologies, Size(ROWS_PER_PARTITION, 2**63 - 1))
    partitions = partitions_for(spark, rows)
    at_once = min(partitions, spark.sparkContext.defaultParallelism)
    if is_local(spark.sparkContext):  # on a cluster, the executors' memory counts
        planned_rows = rows_at_once(rows, largest, partitions, at_once)
        require_memory_of_workers(
            planned_rows, planned_rows * BYTES_OF_A_PLANNED_ROW, memory_of_workers(spark)
        )
    # workers have other working folders
    named = os.path.abspath(costs) if costs is not None and os.path.exists(costs) else costs
    report("plan and measure in workers")
    with planning_settings(spark, partitions):
        measured, _, counts = call_in_workers(
            topologies, partitions, _planned_and_measured(planners, named, options, seconds, constants)
        )
        inputs = count_inputs(topologies, counts)
        before = topologies.rejected.count() if isinstance(topologies, TopologyTablesOnSpark) else 0
        quality = {
            name: _join_parts(measured, number, before, at_once) for number, name in enumerate(planners)
        }
    free(measured)
    for frame in () if isinstance(topologies, GivenTables) else topologies.persisted:
        frame.unpersist()
    for planner_quality in quality.values():
        planned, rejected = planner_quality.summary["planned"], planner_quality.summary["rejected"]
        require_nothing_lost(inputs, planned, rejected, planner_quality.plans[TOPOLOGY].n_unique())
    return _compare_all(inputs, quality, report)


def _planned_and_measured(
    planners: Sequence[str], costs: str | None, options: PlanOptions, seconds: float, constants: Constants
) -> PlanPart:
    """Run plan_and_measure for each planner in a worker, which imports the planner when needed."""

    def plan(frames: dict[str, pl.DataFrame]) -> "InParts":
        from penstock.engine.planning.plan_by_custom_planners import call_settings
        from penstock.plans.planners.plan_in_parts import InParts

        read = TopologyTables.of(frames)
        settings = call_settings(costs, read.topologies, seconds, part=True, constants=constants)
        tables: dict[str, pa.Table] = {}
        for place, name in enumerate(planners):
            measured = plan_and_measure(read, name, settings, options)
            tables[f"{_PLANS} {place}"] = measured.plans.to_arrow()
            tables[f"{_SUMMARY} {place}"] = pa.table({_SUMMARY: [json.dumps(measured.summary)]})
        return InParts(tables, {})

    return plan


def _join_parts(measured: DataFrame, number: int, rejected_before: int, at_once: int) -> PlannerQuality:
    """Join the quality of one planner's plans from the partitions' measurements."""
    summaries = [
        json.loads(text) for table in _tables(measured, f"{_SUMMARY} {number}") for text in table[_SUMMARY]
    ]
    summed = _put_together(summaries, _tables(measured, f"{_PLANS} {number}"))
    summed.summary["rejected"] += rejected_before
    for name in ("planning_seconds", "metrics_seconds"):
        summed.summary[name] /= at_once
    return summed


def _tables(measured: DataFrame, name: str) -> list[pl.DataFrame]:
    """Return the blocks of a table made by the workers."""
    blocks = measured.where(F.col("table") == name).select("block").toArrow().column("block")
    return [pl.DataFrame(pa.ipc.open_stream(block.as_buffer()).read_all()) for block in blocks]


# Quality of plans on a terminal.


def print_quality(cases: Sequence[Mapping[str, Any]]) -> None:
    """Print the speed of each planner, then for each pair the metrics whose values differ."""
    to_the_left = ("suite", "planner")
    named = ("suite", "topologies", "operators", "planner", "planning s", "metrics s", "planned", "rejected")
    columns = [
        Column(n, justify="left" if n in to_the_left else "right", no_wrap=n not in to_the_left)
        for n in named
    ]
    print_table(columns, [
        (
            case["suite"], f"{case['inputs']:,}", f"{case['operators']:,}", row["planner"],
            f"{row['planning_seconds']:.2f}", f"{row['metrics_seconds']:.2f}",
            f"{row['planned']:,}", f"{row['rejected']:,}",
        )
        for case in cases for row in case["planners"]
    ])  # fmt: skip
    for case in cases:
        for row in case["planners"]:
            for rule, count in row["rejected_for"].items():
                name, message = row["rejected_as"][rule]
                rejections = f"{row['planner']}: {count:,} topologies rejected: {rule}; the first is {name}:"
                why = message.splitlines()[0].removeprefix(f"planner {row['planner']}: ")
                print_beside_output(StyledText(f"{rejections} {why.removeprefix(f'{rule}: ')}", "dim"))
        for pair in case["compared"]:
            _print_pair(case, pair)


def _print_pair(case: Mapping[str, Any], pair: Mapping[str, Any]) -> None:
    if is_terminal():
        print_line()
    print_line(
        f"{case['suite']}: {pair['other']} compared with {pair['base']}, {pair['topologies']:,} topologies "
        "that both planned"
    )
    if not pair["topologies"]:
        return
    named = ("metric", pair["base"], pair["other"], "difference", "95% interval", "better", "equal", "worse")
    columns = [Column(name, justify="left" if name == "metric" else "right", no_wrap=True) for name in named]
    differing = [entry for entry in pair["metrics"] if entry["better"] or entry["worse"]]
    print_table(columns, [
        (
            entry["metric"], number(entry["base"]), number(entry["other"]), number(entry["difference"]),
            f"{number(entry['low'])} … {number(entry['high'])}",
            f"{entry['better']:,}", f"{entry['equal']:,}", f"{entry['worse']:,}",
        )
        for entry in differing
    ])  # fmt: skip
    same = [entry["metric"] for entry in pair["metrics"] if entry not in differing]
    if same:
        print_line(f"equal everywhere: {', '.join(same)}")
    print_line(
        f"rates that differ by less than {MODEL_ERROR:.0%}, the error of the cost model, count as equal"
    )
    for entry in differing:
        for kind in ("gains", "losses"):
            if entry["metric"] in ("sustained_records_per_second", "tasks", "slots") and entry[kind]:
                listed = ", ".join(
                    f"{topology['topology']} ({number(topology['difference'])})" for topology in entry[kind]
                )
                print_line(f"{entry['metric']}, largest {kind}: {listed}")


# Quality of plans in a folder: a JSON document, rows of a Delta table, and a page.


Rows = tuple[str, int, str, pl.DataFrame]
"""Suite, size, planner and plan_metrics."""


def write_quality(folder: Path, results: Mapping[str, Any], plans: Sequence[Rows]) -> None:
    """Replace quality.json and quality.html, and append rows of plan_metrics to the table `quality`."""
    with replace_file(folder / "quality.json") as file:
        file.write(f"{json.dumps(results, indent=1)}\n".encode())
    with replace_file(folder / "quality.html") as file:
        file.write(render_quality(results).encode())
    for suite, size, planner, rows in plans:
        named = rows.select(
            pl.lit(results["date"]).alias("date"),
            pl.lit(suite).alias("suite"),
            pl.lit(size).cast(pl.Int64).alias("size"),
            pl.lit(planner).alias("planner"),
            pl.all(),
        )
        floats = named.with_columns(
            pl.col(n).cast(pl.Int64) for n, k in named.schema.items() if k.is_integer()
        )
        write_deltalake(
            str(folder / "quality"),
            floats.to_arrow(compat_level=pl.CompatLevel.oldest()),
            mode="append",
            schema_mode="merge",
        )


def render_quality(results: Mapping[str, Any]) -> str:
    """Render the page with the results of bench --quality."""
    return render_template("quality.html.j2", results=results, number=number, plot=draw_differences)
