"""Drawing as a library call."""

import os
from typing import Any

from penstock.engine.library.check_arguments import member, one_of, path, text
from penstock.engine.library.open_store import read_plan
from penstock.engine.library.plan import plan
from penstock.engine.library.planned_tables import Plan, Store, plan_tables
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.views.draw.drawn_plan import plan_of_topology
from penstock.engine.views.draw.graph import DrawnGraph, to_networkx
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, drawable_layers, graph_of_layer
from penstock.engine.views.draw.to_dot import FORMATS, format_of, rendered
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable
from penstock.plans.vocabulary import DrawnLayerName, PictureName

__all__ = ["Drawing", "draw"]


class Drawing:
    """The drawn plan of one topology. A notebook shows it as a page.

    Attributes:
        topology: The name of the topology.
    """

    def __init__(self, graphs: list[DrawnGraph]) -> None:
        self.topology = graphs[0].topology
        self._graphs = graphs

    def render(self, format: PictureName = "svg") -> str:
        """Return the drawing as text.

        Args:
            format: "svg" (default), "html", "dot", "mermaid" or "graphml".

        Returns:
            The content of a file of that format.

        Raises:
            ConfigurationError: There is no such format.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> penstock.draw({"name": "a", "transformations": [source, sink]}).render()[:5]
            '<?xml'
        """
        return "".join(rendered(self._graphs, one_of("format", format, FORMATS)))

    def write(self, to: str | os.PathLike[str], format: PictureName | None = None) -> None:
        """Write the drawing to a file.

        Args:
            to: Path of the file.
            format: As for `render`. Default: by the end of the path: .svg, .html, .dot, .mmd or .graphml.

        Raises:
            ConfigurationError: There is no such format or folder.
            MachineError: No space, or no permission.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> penstock.draw({"name": "a", "transformations": [source, sink]}).write("a.html")
        """
        target = path("to", to)
        chosen = format_of(target) if format is None else one_of("format", format, FORMATS)
        from pathlib import Path

        with replace_file(Path(target)) as file:
            for piece in rendered(self._graphs, chosen):
                file.write(piece.encode())

    def networkx(self) -> Any:
        """Return the first layer as a networkx.MultiDiGraph.

        Raises:
            ConfigurationError: networkx is not installed (extra `graphs`).
        """
        return to_networkx(self._graphs[0])

    def __repr__(self) -> str:
        layers = ", ".join(graph.layer for graph in self._graphs)
        return f"<penstock.Drawing of {printable(self.topology)!r}: {layers}>"

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.render("html"))
        return (
            '<iframe sandbox="allow-scripts" width="100%" height="560" '
            f'title="Drawn plan" style="border: 0" srcdoc="{page}"></iframe>'
        )


def draw(
    plans: Any,
    topology: str | None = None,
    *,
    layer: DrawnLayer | DrawnLayerName | None = None,
    vertex: str | None = None,
) -> Drawing:
    """Draw the plan of one topology, to show in a notebook or to write to a file.

    Args:
        plans: What `plan`, `read_plan` or `open_store` returned, or topologies as `plan` takes them.
        topology: Its name; may be omitted if there is only one.
        layer: stream_graph, job_graph or execution_graph. Default: the job graph; in a page the stream graph,
            too.
        vertex: For the execution graph, which is drawn around one vertex: its name, the name of one of its
            operators, its id or number.

    Returns:
        Drawing: A notebook shows it as a page.

    Raises:
        ConfigurationError: Several topologies, or no such topology, layer or vertex.
        RefusedTopologiesError: The topology was rejected.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> drawing = penstock.draw({"name": "a", "transformations": [source, sink]})
        >>> drawing.render("mermaid").splitlines()[0]
        'flowchart LR'
    """
    wanted = None if topology is None else text("topology", topology, "my job")
    chosen_layer = None if layer is None else member("layer", layer, DrawnLayer)
    named = None if vertex is None else text("vertex", vertex, "Sink: alerts")
    if named is not None and chosen_layer not in (None, DrawnLayer.EXECUTION_GRAPH):
        raise ConfigurationError(f"vertex needs the layer execution_graph, got {chosen_layer}")
    planned = plans if isinstance(plans, Plan) else None
    if planned is None:
        planned = read_plan(plans, topology=wanted) if isinstance(plans, Store) else plan(plans)
    drawn = plan_of_topology(plan_tables(planned, "draw"), wanted)
    layers = drawable_layers(drawn, chosen_layer, named, first_only=False)
    return Drawing([graph_of_layer(drawn, drawn_layer, named) for drawn_layer in layers])
