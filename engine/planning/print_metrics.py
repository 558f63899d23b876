"""Print metrics of plans for people."""

import polars as pl
from rich.table import Column

from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.plans.metrics.plan_metrics import METRICS, Metrics, fleet_metrics


def print_fleet_metrics(plans: pl.DataFrame) -> None:
    """Print the mean, the median and the extremes of each metric over all topologies."""
    names = ("mean", "smallest", "median", "p95", "largest")
    columns = [Column("metric"), *(Column(name, justify="right", no_wrap=True) for name in names)]
    rows = fleet_metrics(plans).iter_rows(named=True)
    print_table(columns, [(row["metric"], *(number(row[name]) for name in names)) for row in rows])
    print_line(f"{len(plans):,} topologies")


def print_topology_metrics(metrics: Metrics) -> None:
    """Print the metrics of the only topology, and its vertices."""
    (row,) = metrics.plans.iter_rows(named=True)
    values = [
        (name, row[name] if isinstance(row[name], str) else number(row[name]), about)
        for name, (_, about) in METRICS.items()
    ]
    columns = [Column("metric"), Column("value", justify="right"), Column("description")]
    print_table(columns, values)
    named = ("vertex", "parallelism", "records/s", "utilisation", "needed parallelism")
    columns = [Column(name, justify="left" if name == "vertex" else "right") for name in named]
    vertices = metrics.vertices.sort("utilisation", descending=True).iter_rows(named=True)
    print_table(columns, [
        (
            vertex["name"], f"{vertex['parallelism']:,}", number(vertex["records_per_second"]),
            f"{vertex['utilisation']:.1%}", f"{vertex['needed_parallelism']:,}",
        )
        for vertex in vertices
    ])  # fmt: skip


def number(value: float | None) -> str:
    """Return four significant digits; commas for thousands while floats are exact; a dash for None."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:,.0f}" if size < 2**53 and (size >= 1000 or value == int(value)) else f"{value:.4g}"
