"""The figures of a benchmark's pages, drawn by matplotlib: images that need no file beside the page."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from penstock.engine.output.figures import (
    MARKERS,
    axis_label,
    choose_scale,
    figure_bytes,
    figure_text,
    new_figure,
)
from penstock.plans.errors import ConfigurationError

COLOURS = ("#b35900", "#0a6cbd", "#8a3ffc", "#198038")
_GOOD, _BAD = "#198038", "#b35900"
_BESIDE = 1.02
"""Single measurements stand beside their median: x, multiplied by this."""

Point = tuple[float, float]


class Line(NamedTuple):
    """Points in order of x, in one of COLOURS; `dashed` lines have hollow marks.

    `measured` are the single measurements that points are medians of: small marks to the right of them, and
    a bar through each of them to the least and the largest of its own.
    """

    name: str
    colour: int
    points: Sequence[Point]
    dashed: bool = False
    measured: Sequence[Point] = ()


def draw_lines(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> Markup:
    """Lines on logarithmic axes. Points that are not above zero are left out; empty where none is left."""
    kept = [line._replace(points=_shown(line.points), measured=_shown(line.measured)) for line in lines]
    kept = [line for line in kept if line.points]
    if not kept:
        return Markup()

    def draw(axes: Any) -> None:
        for line in kept:
            colour = COLOURS[line.colour % len(COLOURS)]
            axes.plot(
                *zip(*line.points, strict=True),
                color=colour,
                label=figure_text(line.name),
                linestyle="--" if line.dashed else "-",
                marker=MARKERS[line.colour % len(MARKERS)],
                markerfacecolor="none" if line.dashed else colour,
                markersize=4.5,
                linewidth=1.0 if line.dashed else 1.6,
            )
            for x, values in _by_x(line.measured).items():
                axes.vlines(x, min(values), max(values), color=colour, linewidth=1)
                axes.plot([x * _BESIDE] * len(values), values, ".", color=colour, markersize=3, alpha=0.7)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize="small")

    return _image(title, x_label, y_label, (5.2, 3.4), draw)


def draw_differences(entry: Mapping[str, Any]) -> Markup:
    """Bars of the differences of a metric; those on the better side are green. In: compare_quality."""
    counts, edges = entry["bars"]["counts"], entry["bars"]["edges"]

    def draw(axes: Any) -> None:
        middles = [(low + high) / 2 for low, high in pairwise(edges)]
        better = [(middle > 0) == (entry["better_is"] == "more") for middle in middles]
        widths = [0.9 * (high - low) for low, high in pairwise(edges)]
        axes.bar(middles, counts, widths, color=[_GOOD if good else _BAD for good in better])
        choose_scale(axes.set_yscale, [count for count in counts if count])
        if edges[0] < 0 < edges[-1]:
            axes.axvline(0, color="#59636e", linewidth=0.8)

    name = entry["metric"]
    return _image(name, f"difference of {axis_label(name)}", "topologies", (3.4, 2.2), draw)


def _image(
    title: str, x_label: str, y_label: str, size: tuple[float, float], draw: Callable[[Any], None]
) -> Markup:
    """The image, or a sentence in its place where matplotlib is not installed."""
    try:
        figure = new_figure(*size)
    except ConfigurationError as error:
        return Markup("<p>{}: {}</p>").format(error.message, error.hint)
    axes = figure.subplots()
    draw(axes)
    axes.set_title(figure_text(title), fontsize="medium")
    axes.set_xlabel(figure_text(x_label))
    axes.set_ylabel(figure_text(y_label))
    axes.grid(alpha=0.3)
    data = b64encode(figure_bytes(figure, "svg")).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}"/>').format(escape(title), data)


def _shown(points: Sequence[Point]) -> list[Point]:
    """The points that a logarithmic axis can show."""
    return [point for point in points if point[0] > 0 and point[1] > 0]


def _by_x(points: Sequence[Point]) -> dict[float, list[float]]:
    ys: dict[float, list[float]] = {}
    for x, y in points:
        ys.setdefault(x, []).append(y)
    return ys
