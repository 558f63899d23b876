"""Forms that a drawn plan is written in, by name and by the end of a file's name."""

from collections.abc import Iterator, Sequence

from penstock.engine.views.draw.fold import fold
from penstock.engine.views.draw.graph import DrawnGraph
from penstock.plans.errors import ConfigurationError

FORMATS = {
    "svg": ("svg",),
    "html": ("html", "htm"),
    "dot": ("dot", "gv"),
    "mermaid": ("mmd", "mermaid"),
    "graphml": ("graphml",),
}
"""Formats and the ends of file names that mean them."""


def format_of(path: str) -> str:
    """The format that the end of a file's name means. Raises ConfigurationError where it means none."""
    end = path.rpartition(".")[2].lower()
    for name, ends in FORMATS.items():
        if end in ends:
            return name
    allowed = ", ".join(f".{ending}" for ends in FORMATS.values() for ending in ends)
    raise ConfigurationError(
        f"{path}: the end of its name says no format", f"allowed: {allowed}; or choose with --format"
    )


def rendered(graphs: Sequence[DrawnGraph], wanted: str, folding: str = "auto") -> Iterator[str]:
    """The graphs in that format, piece by piece; folded where a picture is drawn; all but html take one graph
    only."""
    from penstock.engine.views.draw.to_dot import to_dot
    from penstock.engine.views.draw.to_graphml import to_graphml
    from penstock.engine.views.draw.to_html import to_html
    from penstock.engine.views.draw.to_mermaid import to_mermaid
    from penstock.engine.views.draw.to_svg import to_svg

    if wanted == "html":
        yield to_html([fold(graph, folding) for graph in graphs])
    elif wanted == "svg":
        yield to_svg(fold(graphs[0], folding))
    else:
        others = {"dot": to_dot, "mermaid": to_mermaid, "graphml": to_graphml}
        yield from others[wanted](graphs[0])
