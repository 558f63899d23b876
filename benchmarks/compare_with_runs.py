"""Compare the cost model's throughput with runs: Kendall's tau, the order of pairs, relative errors."""

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Column, Table

from penstock.plans.metrics.plan_arrays import Floats


def print_comparison(rows: pl.DataFrame) -> None:
    """Print the table and its summary."""
    wide = Console(width=160)
    policies = rows["policy"].unique(maintain_order=True).to_list()
    table = Table(
        Column("job"), *(Column(f"{policy}: model, processor, wall", justify="right") for policy in policies)
    )
    for (job,), job_rows in rows.group_by("job", maintain_order=True):
        values = {row["policy"]: row for row in job_rows.to_dicts()}
        cells = [
            "-" if policy not in values
            else " ".join(f"{values[policy][key]:,.0f}" for key in ("model", "processor", "wall"))
            for policy in policies
        ]  # fmt: skip
        table.add_row(str(job), *cells)
    wide.print(table)
    for line in summary(rows):
        wide.print(line)


def summary(rows: pl.DataFrame) -> list[str]:
    """Return sentences with tau, the order of pairs, and errors, for both throughputs."""
    lines = [f"{rows['job'].n_unique()} jobs, {len(rows)} plans"]
    for key in ("processor", "wall"):
        model, measured = rows["model"].to_numpy(), rows[key].to_numpy()
        within = [
            tau
            for _, job_rows in rows.group_by("job", maintain_order=True)
            if (tau := kendall_tau(job_rows["model"].to_numpy(), job_rows[key].to_numpy(), 0.02)) is not None
        ]
        right, wrong, equal = order_of_pairs(rows, key)
        error = np.abs(model / measured - 1)
        ratio = _ratios(rows, key)
        lines += [
            f"{key} throughput:",
            f"  Kendall's tau over all plans: {kendall_tau(model, measured, 0.0):.2f}",
            f"  over the policies of a job, on average: {np.mean(within):.2f} ({len(within)} jobs)",
            "  pairs of policies that differ by more than the spread: "
            f"{right} in the right order, {wrong} not, {equal} equal in the model",
            f"  relative error: {np.median(error):.0%} median, {np.quantile(error, 0.9):.0%} at 90%",
            "  relative error of the ratio to Flink's plan: "
            f"{np.median(ratio):.0%} median, {np.quantile(ratio, 0.9):.0%} at 90%",
        ]
    return lines


def _ratios(rows: pl.DataFrame, key: str) -> Floats:
    base = rows.filter(pl.col("policy") == "flink").select("job", model_0="model", measured_0=key)
    both = rows.filter(pl.col("policy") != "flink").join(base, on="job")
    predicted = both["model"] / both["model_0"]
    ratios: Floats = (predicted / (both[key] / both["measured_0"])).to_numpy()
    return np.abs(ratios - 1)


def kendall_tau(first: Floats, other: Floats, tie: float) -> float | None:
    """Return tau-b; values that differ by less than the share `tie` are tied.

    None if all values of a side are tied.
    """
    left, right = (_signs(values, tie) for values in (first, other))
    pairs = np.triu_indices(len(first), 1)
    left, right = left[pairs], right[pairs]
    size = np.sqrt(np.count_nonzero(left) * np.count_nonzero(right))
    return float((left * right).sum() / size) if size else None


def _signs(values: Floats, tie: float) -> Floats:
    difference = values[:, None] - values[None, :]
    equal = np.abs(difference) <= tie * np.maximum(values[:, None], values[None, :])
    return np.where(equal, 0, np.sign(difference))


def order_of_pairs(rows: pl.DataFrame, key: str, tie: float = 0.02) -> tuple[int, int, int]:
    """Return counts of pairs of policies of a job whose runs differ by more than their spread.

    They are the pairs that the model orders in the same way, in the opposite way, and as equal.
    """
    counts = [0, 0, 0]
    for _, job_rows in rows.group_by("job", maintain_order=True):
        values = job_rows.select("model", key, "spread").rows()
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
