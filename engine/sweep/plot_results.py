"""A figure of results: a measure over an axis, a line for each planner or whatever else tells cells apart."""

import io
from pathlib import Path
from typing import Any

import polars as pl

from penstock.engine.sweep.read_results import summarised
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import limited, printable

FORMATS = ("svg", "pdf", "png")
_LOGARITHMIC = 50
"""An axis is logarithmic where its largest value is more than this many times its least."""

_UNITS = (
    ("_bytes_per_second", "bytes/s"),
    ("_records_per_second", "records/s"),
    ("_seconds", "s"),
    ("_bytes", "bytes"),
    ("utilisation", "share of time"),
)


def plot_results(rows: pl.DataFrame, x: str, y: str, by: str | None) -> Any:
    """A Figure of matplotlib: means of `y` over `x`, with bars from the least to the largest value.

    `by`: the column of which each value has a line of its own. Raises ConfigurationError where matplotlib is
    not installed, or there is nothing to draw.
    """
    figure_class = _figure_class()
    known = rows.filter(pl.col(x).is_not_null() & pl.col(y).is_not_null())
    if known.is_empty():
        raise ConfigurationError(f"found no result with {x} and {y}")
    is_number = known.schema[x].is_numeric()
    found = summarised(known, [*([] if by is None else [by]), x], [y])
    figure = figure_class(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    labels = found[x].unique(maintain_order=True).sort().to_list()
    for place, (name, of_line) in enumerate(_lines(found, by)):
        places = of_line[x].to_list() if is_number else [labels.index(value) for value in of_line[x]]
        means, least, largest = (of_line[column].to_list() for column in (y, f"{y} least", f"{y} largest"))
        bars = [
            [mean - low for mean, low in zip(means, least, strict=True)],
            [high - mean for mean, high in zip(means, largest, strict=True)],
        ]
        style = {"marker": "osv^Dx"[place % 6], "capsize": 3, "linewidth": 1.2, "markersize": 4}
        axes.errorbar(places, means, yerr=bars, label=_label(name), **style)
    if is_number:
        _scale(axes.set_xscale, labels)
    else:
        axes.set_xticks(range(len(labels)), [_label(one) for one in labels], rotation=20, ha="right")
    _scale(axes.set_yscale, [value for value in found[f"{y} least"] if value is not None])
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))
    axes.grid(alpha=0.3)
    if by is not None:
        axes.legend(title=_label(by), frameon=False)
    return figure


def write_figure(figure: Any, to: Path) -> None:
    """Write a figure as the end of the file's name says. Raises ConfigurationError and MachineError."""
    form = to.suffix.lstrip(".").lower()
    if form not in FORMATS:
        allowed = ", ".join(f".{one}" for one in FORMATS)
        raise ConfigurationError(f"{to}: the end of its name says no format", f"allowed: {allowed}")
    from penstock.engine.machine.replace_file import replace_file

    drawn = figure_bytes(figure, form)
    with replace_file(to) as file:
        file.write(drawn)


def figure_bytes(figure: Any, form: str) -> bytes:
    """The bytes of a file in that format, the same for the same figure; texts of SVG stay texts."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()


def axis_label(name: str) -> str:
    """`planning (s)`: a column's name in words, with its unit."""
    plain, suffix = (name.removesuffix("_p95"), ", 95th percentile") if name.endswith("_p95") else (name, "")
    for end, unit in _UNITS:
        if plain.endswith(end):
            words = plain.removesuffix(end) or plain
            return f"{_label(words.replace('_', ' '))}{suffix} ({unit})"
    return f"{_label(plain.removeprefix('drawn_').replace('_', ' '))}{suffix}"


def _lines(found: pl.DataFrame, by: str | None) -> list[tuple[Any, pl.DataFrame]]:
    if by is None:
        return [("", found)]
    return [(key[0], part) for key, part in found.group_by(by, maintain_order=True)]


def _label(value: object) -> str:
    """Foreign text: matplotlib takes dollar signs for formulas."""
    return limited(printable(str(value)), 60).replace("$", r"\$")


def _scale(set_scale: Any, values: list[Any]) -> None:
    if values and min(values) > 0 and max(values) > _LOGARITHMIC * min(values):
        set_scale("log")


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigurationError(
            "figures are drawn by matplotlib, which is not installed", "pip install 'penstock[figures]'"
        ) from None
    return Figure
