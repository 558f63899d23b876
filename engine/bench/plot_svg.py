"""Lines on log-log axes as inline SVG; colours are classes of the page's style sheet."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log2, log10
from typing import NamedTuple

WIDTH, HEIGHT = 520, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 22, 14, 56
_ASIDE = 8

Point = tuple[float, float]
Place = Callable[[Point], Point]


class Line(NamedTuple):
    """Points in order of x, drawn as `style` (a CSS class); `dashed` lines have hollow marks.

    `measured` are the single measurements that points are medians of: small marks to the right of them, and
    a bar through each of them to the least and the largest of its own.
    """

    name: str
    style: str
    points: Sequence[Point]
    dashed: bool = False
    measured: Sequence[Point] = ()


def plot_svg(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """One SVG element; points that are not above zero are left out. Empty where no point is left."""
    kept = [line._replace(points=_shown(line.points), measured=_shown(line.measured)) for line in lines]
    points = [point for line in kept for point in (*line.points, *line.measured)]
    if not points:
        return ""
    x_low, x_high = _range([x for x, _ in points])
    y_low, y_high = _range([y for _, y in points])

    def place(point: Point) -> Point:
        x = _LEFT + (log10(point[0]) - x_low) / (x_high - x_low) * (WIDTH - _LEFT - _RIGHT)
        y = HEIGHT - _BOTTOM - (log10(point[1]) - y_low) / (y_high - y_low) * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_x_axis(x_low, x_high, place, 10**y_low, 10**y_high),
        *_y_axis(y_low, y_high, place, 10**x_low, 10**x_high),
        f'<text class="axis" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 10}">{escape(x_label)}</text>',
        f'<text class="axis" transform="translate(18 {(HEIGHT - _BOTTOM + _TOP) / 2}) rotate(-90)">'
        f"{escape(y_label)}</text>",
        *(mark for line in kept for mark in _measured(line, [place(point) for point in line.measured])),
        *(part for line in kept for part in _line(line, [place(point) for point in line.points])),
        "</svg>",
    ]
    return "\n".join(parts)


def _shown(points: Sequence[Point]) -> list[Point]:
    """Those that a logarithm can show."""
    return [point for point in points if point[0] > 0 and point[1] > 0]


def _measured(line: Line, places: Sequence[Point]) -> list[str]:
    heights: dict[float, list[float]] = {}
    for x, y in places:
        heights.setdefault(x, []).append(y)
    return [
        *(f'<path class="{line.style}" d="M{x} {min(of)}V{max(of)}"/>' for x, of in heights.items()),
        *(
            f'<circle class="{line.style} measured" cx="{round(x + _ASIDE, 1)}" cy="{y}" r="2.2">'
            f"<title>{escape(line.name)}: {given[0]:,.0f}, {given[1]:.4g}</title></circle>"
            for (x, y), given in zip(places, line.measured, strict=True)
        ),
    ]


def _range(values: Sequence[float]) -> Point:
    """Decimal logarithms of the ends of an axis, half a decade apart or more: one point is centred."""
    low, high = log10(min(values)), log10(max(values))
    if high - low < 0.5:
        middle = (low + high) / 2
        low, high = middle - 0.4, middle + 0.4
    margin = (high - low) * 0.06
    return low - margin, high + margin


def ticks(low: float, high: float) -> list[float]:
    """Values for labels between two decimal logarithms: decades, with 2 and 5 between where few decades fit,
    more digits where even those are not three.
    """
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        found = [
            digit * 10.0**decade
            for decade in range(floor(low), ceil(high) + 1)
            for digit in digits
            if low <= log10(digit) + decade <= high
        ]
        if len(found) >= 3:
            break
    return found


def label(value: float) -> str:
    """1000000 as 1M, 2000 as 2k, 0.05 as 0.05."""
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale * 0.999999:
            return f"{value / scale:g}{unit}"
    return f"{value:.6g}"


def _x_axis(low: float, high: float, place: Place, y_low: float, y_high: float) -> list[str]:
    parts = []
    for value in ticks(low, high):
        x, bottom = place((value, y_low))
        _, top = place((value, y_high))
        parts.append(f'<line class="grid" x1="{x}" y1="{bottom}" x2="{x}" y2="{top}"/>')
        parts.append(f'<text class="tick middle" x="{x}" y="{bottom + 20}">{label(value)}</text>')
    return parts


def _y_axis(low: float, high: float, place: Place, x_low: float, x_high: float) -> list[str]:
    parts = []
    for value in ticks(low, high):
        left, y = place((x_low, value))
        right, _ = place((x_high, value))
        parts.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text class="tick end" x="{left - 7}" y="{y + 4}">{value:,.6g}</text>')
    return parts


def _line(line: Line, places: Sequence[Point]) -> list[str]:
    look = f"{line.style} dashed" if line.dashed else line.style
    joined = " ".join(f"{x},{y}" for x, y in places)
    marks = [
        f'<circle class="{look}" cx="{x}" cy="{y}" r="{3 if line.dashed else 3.8}">'
        f"<title>{escape(line.name)}: {given[0]:,.0f}, {given[1]:.4g}</title></circle>"
        for (x, y), given in zip(places, line.points, strict=True)
    ]
    return [f'<polyline class="{look}" points="{joined}"/>', *marks] if len(places) > 1 else marks


def legend(styles: Mapping[str, str]) -> list[tuple[str, str]]:
    """(name, SVG of a short line) for each planner."""
    return [
        (
            name,
            f'<svg class="key" viewBox="0 0 34 12"><polyline class="{style}" points="1,6 33,6"/>'
            f'<circle class="{style}" cx="17" cy="6" r="3.8"/></svg>',
        )
        for name, style in styles.items()
    ]


def strip_svg(values: Sequence[float], middle: float, style: str) -> str:
    """Values as dots in a strip from half to twice `middle`, which a line marks; others are at its ends.

    Empty for fewer than two.
    """
    if len(values) < 2 or middle <= 0:
        return ""
    places = [60 + 50 * max(-1.0, min(1.0, log2(value / middle))) if value > 0 else 10 for value in values]
    said = escape(", ".join(f"{value:.4g}" for value in sorted(values)))
    dots = (f'<circle class="{style} measured" cx="{x:.1f}" cy="8" r="3"/>' for x in places)
    return (
        f'<svg class="strip" viewBox="0 0 120 16" role="img" aria-label="{said}"><title>{said}</title>'
        f'<line class="grid" x1="10" y1="8" x2="110" y2="8"/>'
        f'<line class="grid" x1="60" y1="1" x2="60" y2="15"/>'
        f"{''.join(dots)}</svg>"
    )
