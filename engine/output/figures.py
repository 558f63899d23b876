"""Shared functions for figures drawn by matplotlib."""

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command
from penstock.plans.printable import limited, printable

MARKERS = "osv^Dx"
_LOGARITHMIC = 50
"""Ratio of an axis' largest to its least value above which the axis is logarithmic."""


_UNITS = (
    ("_bytes_per_second", "bytes/s"),
    ("_records_per_second", "records/s"),
    ("_seconds", "s"),
    ("_bytes", "bytes"),
    ("utilisation", "share of time"),
)


def new_figure(width: float, height: float) -> Any:
    """Make an empty Figure; sizes are in inches. Raises ConfigurationError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigurationError(
            "figures are drawn by matplotlib, which is not installed", install_command("figures")
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def describe_figures(page: Path, figures: str) -> str:
    """Describe in a line where `figures` are, or which extra is needed to draw them."""
    if find_spec("matplotlib") is not None:
        return f"{page} shows {figures}"
    return f"{page} lacks {figures}, which matplotlib draws: {install_command('figures')}"


def figure_bytes(figure: Any, form: str) -> bytes:
    """Return the bytes of a file in that format, equal for equal figures; texts of SVG stay texts."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock"}):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()


def figure_text(value: object) -> str:
    """Escape foreign text, because matplotlib reads dollar signs as formulas."""
    return limited(printable(str(value)), 60).replace("$", r"\$")


def choose_scale(set_scale: Any, values: list[Any]) -> None:
    """Set a logarithmic axis if values are far apart."""
    if values and min(values) > 0 and max(values) > _LOGARITHMIC * min(values):
        set_scale("log")


def axis_label(name: str) -> str:
    """Write a column's name in words, with its unit: `planning (s)`."""
    plain, suffix = (name.removesuffix("_p95"), ", 95th percentile") if name.endswith("_p95") else (name, "")
    for end, unit in _UNITS:
        if plain.endswith(end):
            words = plain.removesuffix(end) or plain
            return f"{figure_text(words.replace('_', ' '))}{suffix} ({unit})"
    return f"{figure_text(plain.removeprefix('drawn_').replace('_', ' '))}{suffix}"
