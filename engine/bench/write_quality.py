"""Quality of plans in a folder: a JSON document, rows of a Delta table, and a page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import write_deltalake
from markupsafe import Markup

from penstock.engine.bench.render_template import render_template
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.planning.tell_metrics import number

_WIDTH, _HEIGHT = 320, 90

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
    return render_template("quality.html.j2", results=results, number=number, plot=_plot)


def _plot(entry: Mapping[str, Any]) -> Markup:
    """Bars of the differences; those on the better side are green."""
    counts, edges = entry["bars"]["counts"], entry["bars"]["edges"]
    most, width = max(counts), _WIDTH / len(counts)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{entry["metric"]}">']
    for place, count in enumerate(counts):
        middle = (edges[place] + edges[place + 1]) / 2
        kind = "good" if (middle > 0) == (entry["better_is"] == "more") else "bad"
        height = _HEIGHT * count / most
        parts.append(
            f'<rect class="{kind}" x="{place * width:.1f}" y="{_HEIGHT - height:.1f}" '
            f'width="{width - 1:.1f}" height="{height:.1f}"/>'
        )
    if edges[0] < 0 < edges[-1]:
        zero = -edges[0] / (edges[-1] - edges[0]) * _WIDTH
        parts.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{_HEIGHT}"/>')
    return Markup("".join([*parts, "</svg>"]))
