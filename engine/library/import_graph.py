"""Graphs of other libraries as topologies, as a library call."""

from collections.abc import Mapping
from typing import Any

from penstock.engine.library.check_arguments import member, strings, text, whole_number
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.importing.given_graph import (
    EDGE_ATTRIBUTES,
    NODE_ATTRIBUTES,
    ImportOptions,
    SeveralInputs,
    topology_of_graph,
)
from penstock.plans.importing.graphs_of_libraries import graph_of_library
from penstock.plans.importing.node_errors import graph_errors
from penstock.plans.literals import PartitionerName, SeveralInputsName
from penstock.plans.printable import first_and_count
from penstock.plans.vocabulary import Partitioner


def import_graph(
    graph: Any,
    name: str | None = None,
    *,
    parallelism: int | None = None,
    partitioner: Partitioner | PartitionerName | None = None,
    several_inputs: SeveralInputs | SeveralInputsName = SeveralInputs.OPERATOR,
    take: Mapping[str, str] | None = None,
    reverse: bool = False,
) -> dict[str, Any]:
    """A topology, for `plan`, with an operator for each node of a directed graph and an edge for each edge.

    `graph`: of networkx or igraph. Attributes of nodes and edges named as keys of topology files (kind,
    parallelism, uid, partitioner, …) are taken; `take` maps such keys to other attributes. Without a `kind`,
    nodes that read nothing are sources, nodes that nothing reads are sinks, and of the others those with two
    or more inputs are two_input and multi_input operators, or, with `several_inputs="union"`, one_input
    operators that read a union. `parallelism` and `partitioner`: of nodes and edges that have none.
    `reverse`: edges point from readers to what they read.

    The key `config` of the topology says what was assumed and which attributes were ignored. Raises
    InputError with every reason (a cycle, an undirected graph, a wrong value), ConfigurationError for wrong
    arguments.
    """
    options = ImportOptions(
        parallelism=None if parallelism is None else whole_number("parallelism", parallelism),
        partitioner=None if partitioner is None else str(member("partitioner", partitioner, Partitioner)),
        several_inputs=member("several_inputs", several_inputs, SeveralInputs),
        take=known_keys("take", strings("take", take)),
        reverse=bool(reverse),
    )
    read_graph = graph_of_library(graph, None if name is None else text("name", name, "my graph"))
    converted = topology_of_graph(read_graph, type(graph).__module__.partition(".")[0], options)
    errors = converted if isinstance(converted, list) else graph_errors(converted)
    if errors or isinstance(converted, list):
        raise InputError(f"graph: {first_and_count([error.message for error in errors], '; ')}")
    return converted


def known_keys(argument: str, take: Mapping[str, str]) -> Mapping[str, str]:
    """`take`, whose keys attributes may hold. Raises ConfigurationError."""
    allowed = (*NODE_ATTRIBUTES, *EDGE_ATTRIBUTES)
    if wrong := [key for key in take if key not in allowed]:
        raise ConfigurationError(f"{argument}: found {wrong[0]!r}, allowed {', '.join(allowed)}")
    return take
