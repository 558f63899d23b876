"""The decisions that a custom planner may make, and the tables that contain them."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import polars as pl

from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import DecisionName, Layer

Function = TypeVar("Function", bound=Callable[..., Any])

ATTRIBUTE = "penstock_decides"
"""The attribute of a function that names its decision."""


class Decision(StrEnum):
    """The kinds of decisions, in the order in which they take effect."""

    PARALLELISM = "parallelism"  #: of operators
    PARTITIONERS = "partitioners"  #: of stream edges
    CHAINING = "chaining"  #: which stream edges are chained
    SLOT_SHARING_GROUPS = "slot_sharing_groups"  #: which vertices may share slots
    EXECUTION_SLOT_SHARING_GROUPS = "execution_slot_sharing_groups"  #: which tasks share a slot
    PLAN = "plan"  #: any tables of the plan


class AnswerForm(NamedTuple):
    """The form of a planner's decision; `decided_table` names the table whose rows it concerns.

    `keys`: columns of both tables, in addition to topology_id. Rows without a decision keep Flink's values.
    """

    layer: Layer
    decided_table: str
    keys: tuple[str, ...]
    value: str
    kind: pl.DataType


ANSWERS: dict[Decision, AnswerForm] = {
    Decision.PARALLELISM: AnswerForm(Layer.STREAM_GRAPH, "stream_nodes", ("id",), "parallelism", pl.Int32()),
    Decision.PARTITIONERS: AnswerForm(
        Layer.STREAM_GRAPH, "stream_edges", ("target", "in_index"), "partitioner", pl.String()
    ),
    Decision.CHAINING: AnswerForm(
        Layer.STREAM_GRAPH, "stream_edges", ("target", "in_index"), "chainable", pl.Boolean()
    ),
    Decision.SLOT_SHARING_GROUPS: AnswerForm(
        Layer.JOB_GRAPH, "job_vertices", ("vertex",), "slot_sharing_group", pl.String()
    ),
    Decision.EXECUTION_SLOT_SHARING_GROUPS: AnswerForm(
        Layer.EXECUTION_GRAPH,
        "execution_vertices",
        ("vertex", "subtask"),
        "execution_slot_sharing_group",
        pl.Int64(),
    ),
}
"""The form of the answer to each decision; the answer to PLAN is a dict of whole tables."""


def decides(decision: DecisionName | Decision) -> Callable[[Function], Function]:
    """Mark a function as a custom planner that makes one decision in place of Flink's rule.

    The function's parameters name the tables that it reads, and it returns its answers as a table; see
    docs/custom-planners.md.

    Args:
        decision: "parallelism", "partitioners", "chaining", "slot_sharing_groups",
            "execution_slot_sharing_groups" or "plan".

    Returns:
        A decorator that returns the function itself.

    Raises:
        ConfigurationError: There is no such decision.

    Examples:
        >>> import polars as pl
        >>> @penstock.decides("chaining")
        ... def never(stream_edges):
        ...     return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(False))
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]}, planner=never)
        >>> plan.tables["job_vertices"].num_rows
        2
    """
    try:
        marked_decision = Decision(decision)
    except ValueError:
        allowed = ", ".join(Decision)
        raise ConfigurationError(f"the argument of decides must be {allowed}, got {decision!r}") from None

    def mark(function: Function) -> Function:
        setattr(function, ATTRIBUTE, marked_decision)
        return function

    return mark


Tables = Mapping[str, pl.DataFrame]
