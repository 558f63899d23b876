"""A layer of a plan as the graph that is drawn."""

from enum import StrEnum

from penstock.engine.draw.drawn_plan import DrawnPlan
from penstock.engine.draw.execution_graph import execution_graph
from penstock.engine.draw.graph import Graph
from penstock.engine.draw.job_graph import job_graph
from penstock.engine.draw.stream_graph import stream_graph
from penstock.plans.errors import ConfigurationError


class DrawnLayer(StrEnum):
    """What can be drawn."""

    STREAM_GRAPH = "stream_graph"
    JOB_GRAPH = "job_graph"
    EXECUTION_GRAPH = "execution_graph"


_NEEDED = {
    DrawnLayer.STREAM_GRAPH: ("stream_nodes", "stream_edges"),
    DrawnLayer.JOB_GRAPH: ("job_vertices", "job_edges"),
    DrawnLayer.EXECUTION_GRAPH: ("execution_vertices", "execution_edges"),
}


def graph_of_layer(plan: DrawnPlan, layer: DrawnLayer, vertex: str | None = None) -> Graph:
    """That layer of a plan; `vertex` (see find_vertex) chooses whose tasks an execution graph shows.

    Raises ConfigurationError: the plan does not go as far, or there is no such vertex.
    """
    if not plan.has(*_NEEDED[layer]):
        raise ConfigurationError(
            f"topology {plan.topology!r}: its plan has no {layer.replace('_', ' ')}",
            "it was planned with --until; plan it without",
        )
    if layer is DrawnLayer.STREAM_GRAPH:
        return stream_graph(plan)
    if layer is DrawnLayer.JOB_GRAPH:
        return job_graph(plan)
    return execution_graph(plan, vertex)


def drawable_layers(
    plan: DrawnPlan, asked: DrawnLayer | None, vertex: str | None, *, one: bool
) -> list[DrawnLayer]:
    """The layers to draw: what is asked for, else those the plan has, the job graph first.

    With `vertex`, its execution graph comes first. `one`: only the first of them.
    """
    if asked is not None:
        return [asked]
    found = [] if vertex is None else [DrawnLayer.EXECUTION_GRAPH]
    has = (DrawnLayer.JOB_GRAPH, DrawnLayer.STREAM_GRAPH)
    found += [layer for layer in has if plan.has(*_NEEDED[layer])]
    return (found or [DrawnLayer.JOB_GRAPH])[: 1 if one else None]
