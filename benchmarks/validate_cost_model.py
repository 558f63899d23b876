"""How well the cost model ranks plans: its throughput beside that of runs on Flink's MiniCluster.

    python -m benchmarks.validate_cost_model [--constants FILE] [--repeat N] [--seconds S] [--jobs N]
        [--out FILE]

Runs workloads and drawn topologies under several policies: Flink's, never chaining, chaining half of the
edges, and isolated slots. Operators spin for the time that their costs say, sources are generated, and
records have the bytes that the costs say. Needs the extra `flink` and a JDK.

The machine's cores are those of all slots, so the model is told as many `cores`, and `slot_cores` alike.
Two throughputs are measured. `wall`: records/s of all sources. `processor`: what these runs would reach if
they had the cores for themselves: one second, divided by the processor time that a record takes in the
busiest subtask, or in all threads over all cores, whichever is more. Where others use the machine, only the
second is sound.

Prints Kendall's tau-b over all runs, and over the policies of each job; the share of pairs of policies that
differ by more than the runs' spread and that the model puts in the right order; and the relative error.
"""

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Column, Table

from penstock.engine.bench.suites import WORKLOADS
from penstock.engine.flink.measured_jobs.run_measured_jobs import (
    JobRun,
    MeasuredJob,
    MeasuredOperator,
    run_measured_jobs,
)
from penstock.engine.planning.chosen_costs import DRAWN, chosen_costs
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
from penstock.engine.planning.plan_in_process import read_in_process
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.generate.fleet import Spec
from penstock.plans.generate.shapes import SHAPES
from penstock.plans.generate.topology_lines import topology_lines
from penstock.plans.layers import Choices
from penstock.plans.metrics.exchange_costs import CONSTANTS, Constants, read_constants
from penstock.plans.metrics.plan_arrays import Floats
from penstock.plans.metrics.plan_metrics import SUSTAINED, plan_metrics

POLICIES = ("flink", "never", "half", "isolated")
MOST_OPERATORS = 14
MOST_SLOTS = 64
SOURCE_NANOSECONDS = 100.0
"""What a generated source takes for itself; operators spin for the rest of their cost."""

_NAMES = {"FORWARD", "HASH", "BROADCAST", "GLOBAL", "RESCALE", "SHUFFLE"}


def main() -> None:
    """Measure, compare and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--constants", type=Path)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=1.0)
    arguments.add_argument("--jobs", type=int, default=40)
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    cores = float(len(os.sched_getaffinity(0)))
    constants = CONSTANTS if given.constants is None else read_constants(given.constants)
    constants = constants._replace(slot_cores=cores, cores=cores)
    jobs, predicted = _planned(chosen_topologies(given.jobs), constants, given.seconds)
    order = [job for _ in range(given.repeat) for job in jobs]
    runs = run_measured_jobs([*jobs[:8], *order])[8:]
    rows = _rows(runs, predicted, cores)
    if given.out is not None:
        given.out.write_text(json.dumps(rows.to_dicts(), indent=1) + "\n", encoding="utf-8")
    print_comparison(rows)


def chosen_topologies(most: int) -> list[dict[str, Any]]:
    """Workloads of few operators and drawn topologies, with one and two subtasks in turn."""
    lines = [json.loads(line) for line in WORKLOADS.read_text(encoding="utf-8").splitlines()]
    small = [line for line in lines if len(line["transformations"]) <= MOST_OPERATORS + 4]
    drawn = []
    for name, operators, width in (
        ("chain", 8, None),
        ("diamond", 12, 3),
        ("layered", 12, 2),
        ("wide", 10, 3),
    ):
        shape = next(shape for shape in SHAPES if shape.name == name)
        text = "".join(topology_lines(shape.fleet(Spec(operators, 3, 5, width=width))))
        drawn += [json.loads(line) for line in text.splitlines()]
    chosen = [*small[: most - len(drawn)], *drawn]
    return [{**line, "parallelism": 1 + number % 2} for number, line in enumerate(chosen)]


def _planned(
    topologies: Sequence[dict[str, Any]], constants: Constants, seconds: float
) -> tuple[list[MeasuredJob], dict[str, float]]:
    """A job for each topology and policy, and what the model predicts, by name of the job."""
    jobs: list[MeasuredJob] = []
    predicted: dict[str, float] = {}
    for policy in POLICIES:
        tables = _plan(topologies, policy)
        costs = chosen_costs(DRAWN, tables["topologies"])(tables["stream_nodes"], tables["stream_edges"])
        choices = Choices()
        found = plan_metrics(tables, costs, choices.task_manager, choices.network, constants).plans
        for name, rate in found.select("name", SUSTAINED).iter_rows():
            job = _job(f"{name}/{policy}", tables, costs, name)
            if job is not None:
                jobs.append(job._replace(seconds=seconds, warm_up_seconds=0.8 * seconds))
                predicted[job.name] = rate
    by_topology = {name: place for place, name in enumerate(line["name"] for line in topologies)}
    jobs.sort(key=lambda job: by_topology[job.name.rpartition("/")[0]])
    return jobs, predicted


def _plan(topologies: Sequence[dict[str, Any]], policy: str) -> dict[str, pl.DataFrame]:
    read = read_in_process(list(topologies), lambda stage: None)
    planners = [] if policy == "flink" else find_custom_planners(f"benchmarks.policies_to_compare:{policy}")
    planned = plan_by_custom_planners(read.frames, read.inputs, planners)
    return {name: from_arrow(rows) for name, rows in planned.tables.items()}


def _job(
    name: str, tables: Mapping[str, pl.DataFrame], costs: pl.DataFrame, topology: str
) -> MeasuredJob | None:
    """The plan as a job of the MiniCluster; None where it has sources inside of chains or too many slots."""
    key = tables["topologies"].filter(pl.col("name") == topology)["topology_id"][0]
    of = {
        table: rows.filter(pl.col("topology_id") == key)
        for table, rows in tables.items()
        if "topology_id" in rows.columns
    }
    slots = int(of["required_slots"]["slots"].sum())
    if of["stream_edges"]["chained_source"].any() or slots > MOST_SLOTS:
        return None
    groups = dict(of["job_vertices"].select("vertex", "slot_sharing_group").iter_rows())
    vertex = dict(of["chained_operators"].select("node", "vertex").iter_rows())
    nodes = of["stream_nodes"].join(costs, on=["topology_id", "id"]).sort("id")
    edges = of["stream_edges"].sort("target", "in_index").to_dicts()
    operators = []
    for node in nodes.to_dicts():
        inputs = [edge for edge in edges if edge["target"] == node["id"]]
        spin = node["cpu_nanoseconds_per_record"] - (0.0 if inputs else SOURCE_NANOSECONDS)
        operators.append(
            MeasuredOperator(
                node["id"],
                node["parallelism"],
                max(spin, 0.0),
                node["selectivity"],
                int(node["record_bytes"]),
                str(groups[vertex[node["id"]]]),
                bool(inputs) and not any(edge["chainable"] for edge in inputs),
                [
                    (edge["source"], edge["partitioner"] if edge["partitioner"] in _NAMES else "REBALANCE",
                     edge["output_tag"] or "")
                    for edge in inputs
                ],
            )
        )  # fmt: skip
    return MeasuredJob(name, _in_order(operators))


def _in_order(operators: Sequence[MeasuredOperator]) -> list[MeasuredOperator]:
    """Each after those that it reads."""
    left, ordered, known = list(operators), [], set()
    while left:
        ready = [one for one in left if all(source in known for source, _, _ in one.inputs)]
        ordered += ready
        known |= {one.id for one in ready}
        left = [one for one in left if one.id not in known]
    return ordered


def _rows(runs: Iterable[JobRun], predicted: Mapping[str, float], cores: float) -> pl.DataFrame:
    """One row for each job and policy: what was predicted and measured, and the spread of the runs."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        if run.error is not None:
            print(f"{run.name}: not run: {run.error}")
            continue
        rate = sum(run.records_per_second.values())
        measured.setdefault(run.name, []).append(
            (rate, rate / max(_busiest(run), run.processor["process"] / cores))
        )
    rows = []
    for name, values in measured.items():
        wall, processor = ([value[place] for value in values] for place in (0, 1))
        job, _, policy = name.rpartition("/")
        rows.append({
            "job": job, "policy": policy, "model": predicted[name],
            "wall": median(wall), "processor": median(processor),
            "spread": (max(processor) - min(processor)) / median(processor) / 2,
        })  # fmt: skip
    return pl.DataFrame(rows)


def _busiest(run: JobRun) -> float:
    """Processor seconds a second of the busiest subtask."""
    return max(share for name, share in run.processor.items() if name.startswith("subtask "))


def print_comparison(rows: pl.DataFrame) -> None:
    """The table, and what it comes to."""
    wide = Console(width=160)
    table = Table(
        Column("job"), *(Column(f"{policy}: model, processor, wall", justify="right") for policy in POLICIES)
    )
    for (job,), found in rows.group_by("job", maintain_order=True):
        values = {row["policy"]: row for row in found.to_dicts()}
        cells = [
            "-" if policy not in values
            else " ".join(f"{values[policy][key]:,.0f}" for key in ("model", "processor", "wall"))
            for policy in POLICIES
        ]  # fmt: skip
        table.add_row(str(job), *cells)
    wide.print(table)
    for line in summary(rows):
        wide.print(line)


def summary(rows: pl.DataFrame) -> list[str]:
    """Sentences with tau, the order of pairs, and errors, for both throughputs."""
    said = [f"{rows['job'].n_unique()} jobs, {len(rows)} plans"]
    for key in ("processor", "wall"):
        model, measured = rows["model"].to_numpy(), rows[key].to_numpy()
        within = [
            tau
            for _, found in rows.group_by("job", maintain_order=True)
            if (tau := kendall_tau(found["model"].to_numpy(), found[key].to_numpy(), 0.02)) is not None
        ]
        right, wrong, equal = order_of_pairs(rows, key)
        error = np.abs(model / measured - 1)
        ratio = _ratios(rows, key)
        said += [
            f"{key} throughput:",
            f"  Kendall's tau over all plans: {kendall_tau(model, measured, 0.0):.2f}",
            f"  over the policies of a job, on average: {np.mean(within):.2f} ({len(within)} jobs)",
            "  pairs of policies that differ by more than the spread: "
            f"{right} in the right order, {wrong} not, {equal} that the model calls equal",
            f"  relative error: {np.median(error):.0%} median, {np.quantile(error, 0.9):.0%} at 90%",
            "  relative error of the ratio to Flink's plan: "
            f"{np.median(ratio):.0%} median, {np.quantile(ratio, 0.9):.0%} at 90%",
        ]
    return said


def _ratios(rows: pl.DataFrame, key: str) -> Floats:
    base = rows.filter(pl.col("policy") == "flink").select("job", model_0="model", measured_0=key)
    both = rows.filter(pl.col("policy") != "flink").join(base, on="job")
    predicted = both["model"] / both["model_0"]
    ratios: Floats = (predicted / (both[key] / both["measured_0"])).to_numpy()
    return np.abs(ratios - 1)


def kendall_tau(one: Floats, other: Floats, tie: float) -> float | None:
    """Tau-b; values that differ by less than the share `tie` are tied. None where all are, on a side."""
    left, right = (_signs(values, tie) for values in (one, other))
    pairs = np.triu_indices(len(one), 1)
    left, right = left[pairs], right[pairs]
    size = np.sqrt(np.count_nonzero(left) * np.count_nonzero(right))
    return float((left * right).sum() / size) if size else None


def _signs(values: Floats, tie: float) -> Floats:
    difference = values[:, None] - values[None, :]
    equal = np.abs(difference) <= tie * np.maximum(values[:, None], values[None, :])
    return np.where(equal, 0, np.sign(difference))


def order_of_pairs(rows: pl.DataFrame, key: str, tie: float = 0.02) -> tuple[int, int, int]:
    """Pairs of policies of a job whose runs differ by more than their spread: those that the model orders
    alike, the other way, and that it calls equal."""
    counts = [0, 0, 0]
    for _, found in rows.group_by("job", maintain_order=True):
        values = found.select("model", key, "spread").rows()
        for place, (model, measured, spread) in enumerate(values):
            for other_model, other, other_spread in values[place + 1 :]:
                if abs(measured - other) <= max(spread + other_spread, tie) * max(measured, other):
                    continue
                if abs(model - other_model) <= tie * max(model, other_model):
                    counts[2] += 1
                else:
                    counts[(model > other_model) != (measured > other)] += 1
    right, wrong, equal = counts
    return right, wrong, equal


if __name__ == "__main__":
    main()
