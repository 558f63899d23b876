"""Layers of a plan as one page that needs no network and no other file."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.engine.views.draw.graph import DrawnGraph
from penstock.engine.views.draw.lay_out import (
    Picture,
    drawn,
    group_class,
    lay_out,
    legend_entries,
    line_kinds,
    style,
)
from penstock.plans.printable import printable


def to_html(graphs: Sequence[DrawnGraph]) -> str:
    """A page with a picture of each graph; all are of one topology.

    Its scripts and styles are its own, known by their hashes; names are foreign, and escaped everywhere.
    """
    layers = [layer_of_page(graph, number) for number, graph in enumerate(graphs)]
    styles, script = f"{style()}{asset('page.css')}", f"{asset('view.js')}{asset('page.js')}"
    page = (
        templates()
        .get_template("page.html.j2")
        .render(
            topology=printable(graphs[0].topology),
            layers=layers,
            data=json_of_page([layer["data"] for layer in layers]),
            style=Markup(styles),
            script=Markup(script),
            style_hash=hash_of(styles),
            script_hash=hash_of(script),
        )
    )
    return str(page)


def layer_of_page(graph: DrawnGraph, number: int) -> dict[str, Any]:
    """The values of the template for a graph, and `data`, which the page's script reads."""
    picture = lay_out(graph)
    closed = _closed(picture)
    return {
        "name": graph.layer,
        "number": number,
        "drawn": Markup(drawn(graph, picture)),
        "inner": [(key, Markup(drawn(graph, inner))) for key, inner in closed.items()],
        "groups": [
            (printable(entry.name), group_class(entry.number).strip()) for entry in legend_entries(graph)
        ],
        "lines": line_kinds(graph),
        "counted": f"{_leaves(graph):,} {_CALLED[graph.layer]}, {len(graph.edges):,} edges",
        "data": _data(graph, closed),
    }


_CALLED = {"stream graph": "operators", "job graph": "vertices", "execution graph": "tasks and exchanges"}


def json_of_page(data: Any) -> str:
    """JSON inside a script element: nothing in it ends that, or begins a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def hash_of(text: str) -> str:
    """The hash by which a content security policy allows a script or a style."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def templates() -> Environment:
    """The templates of pages; what they are given is escaped."""
    return Environment(
        loader=PackageLoader("penstock.engine.views.draw", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """A script or style sheet of drawn pages."""
    return files("penstock.engine.views.draw").joinpath(name).read_text(encoding="utf-8")


def _closed(picture: Picture) -> dict[str, Picture]:
    """Keys of closed boxes, also of those inside others, and what is in them."""
    closed: dict[str, Picture] = {}
    todo = [picture]
    while todo:
        for box in todo.pop().boxes:
            if box.inner is not None and not box.is_open:
                closed[box.node.key] = box.inner
                todo.append(box.inner)
    return closed


def _leaves(graph: DrawnGraph) -> int:
    enclosing = {node.inside for node in graph.nodes}
    return sum(node.key not in enclosing for node in graph.nodes)


def _data(graph: DrawnGraph, closed: dict[str, Picture]) -> dict[str, Any]:
    """Nodes by key, edges by place, sizes of what is in closed boxes. Texts are shown as they are here."""
    return {
        "nodes": {
            node.key: {
                "name": printable(node.name),
                "facts": [(heading, printable(value)) for heading, value in node.facts],
                **({"lines": [printable(line) for line in node.lines]} if len(node.lines) > 1 else {}),
                **({"inside": node.inside} if node.inside is not None else {}),
            }
            for node in graph.nodes
        },
        "edges": [
            (edge.source, edge.target, edge.label, [(key, printable(value)) for key, value in edge.facts])
            for edge in graph.edges
        ],
        "inner": {
            key: (round(inner.size.width, 1), round(inner.size.height, 1)) for key, inner in closed.items()
        },
    }
