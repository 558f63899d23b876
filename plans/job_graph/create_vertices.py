"""The rules that derive the columns of a job vertex from the operators of its chain, for both planners.

A new column of job_vertices that follows from columns of stream_nodes is declared in plans/tables and has one
rule here: all steps up to job_vertices carry what they do not change.
"""

from enum import Enum, auto
from typing import NamedTuple


class FromChain(Enum):
    """The ways to combine a column over the operators of a chain."""

    HEAD = auto()  #: the head's value
    ANY = auto()  #: whether any operator has it, chained sources included
    ALL = auto()  #: whether all operators have it, chained sources included
    SUM = auto()  #: sum of resources, without those of chained sources; null if those of any operator are


class VertexRule(NamedTuple):
    """The rule that derives a column of a vertex from a column of stream_nodes."""

    of_chain: FromChain
    node_column: str


VERTEX_RULES = {
    "parallelism": VertexRule(FromChain.HEAD, "parallelism"),
    "max_parallelism": VertexRule(FromChain.HEAD, "max_parallelism"),
    "parallelism_configured": VertexRule(FromChain.ANY, "parallelism_configured"),
    "invokable": VertexRule(FromChain.HEAD, "invokable"),
    "slot_sharing_group_name": VertexRule(FromChain.HEAD, "slot_sharing_group"),
    "co_location_group_name": VertexRule(FromChain.HEAD, "co_location_group"),
    "supports_concurrent_execution_attempts": VertexRule(
        FromChain.ALL, "supports_concurrent_execution_attempts"
    ),
    "min_resources": VertexRule(FromChain.SUM, "min_resources"),
    "preferred_resources": VertexRule(FromChain.SUM, "preferred_resources"),
}
"""Column of a vertex to its rule. Name, id and format_vertex have rules of their own in create_vertices.

Source: StreamingJobGraphGenerator.createJobVertex, createChainedMinResources,
markSupportingConcurrentExecutionAttempts.
"""

OPERATOR_COLUMNS = (
    "name",
    "uid",
    "uid_hash",
    "input_format",
    "output_format",
    "managed_memory",
    "slot_scope",
)
NODE_COLUMNS = tuple(
    dict.fromkeys((*OPERATOR_COLUMNS, *(rule.node_column for rule in VERTEX_RULES.values())))
)
"""The columns of stream_nodes that operators of a vertex keep: their own, and those that the rules need."""

RESOURCE_FIELDS = (
    "cpu_cores",
    "task_heap_memory_bytes",
    "task_off_heap_memory_bytes",
    "managed_memory_bytes",
)


def vertex_columns(of_chain: FromChain) -> list[str]:
    """The columns of vertices that have this rule."""
    return [column for column, rule in VERTEX_RULES.items() if rule.of_chain is of_chain]


CHAINED_SOURCE, HEAD = 0, 1
