"""Quality of plans in a folder: a JSON document, rows of a Delta table, and a page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import write_deltalake

from penstock.engine.bench.draw_figures import draw_differences
from penstock.engine.bench.render_template import render_template
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.planning.tell_metrics import number

Rows = tuple[str, int, str, pl.DataFrame]
"""Suite, size, planner and plan_metrics."""


def write_quality(folder: Path, results: Mapping[str, Any], plans: Sequence[Rows]) -> None:
    """quality.json and quality.html are replaced; rows of plan_metrics are added to the table `quality`."""
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
    """The page of what bench --quality found."""
    return render_template("quality.html.j2", results=results, number=number, plot=draw_differences)
