"""The decisions that a custom planner may make, and the tables that hold them."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import polars as pl

from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import DecisionName, Layer

# The decisions that a custom planner may make, and the tables that hold them.


Function = TypeVar("Function", bound=Callable[..., Any])

ATTRIBUTE = "penstock_decides"
"""The attribute by which a function says what it decides."""


class Decision(StrEnum):
    """The kinds of decisions, in the order in which they take effect."""

    PARALLELISM = "parallelism"  #: of operators
    PARTITIONERS = "partitioners"  #: of stream edges
    CHAINING = "chaining"  #: which stream edges are chained
    SLOT_SHARING_GROUPS = "slot_sharing_groups"  #: which vertices may share slots
    EXECUTION_SLOT_SHARING_GROUPS = "execution_slot_sharing_groups"  #: which tasks share a slot
    PLAN = "plan"  #: any tables of the plan


class Answer(NamedTuple):
    """The table that holds a planner's decision; `of` names the table whose rows it decides about.

    `keys`: columns of both tables, in addition to topology_id. Rows without a decision stay as Flink has
    them.
    """

    layer: Layer
    of: str
    keys: tuple[str, ...]
    value: str
    kind: pl.DataType


ANSWERS: dict[Decision, Answer] = {
    Decision.PARALLELISM: Answer(Layer.STREAM_GRAPH, "stream_nodes", ("id",), "parallelism", pl.Int32()),
    Decision.PARTITIONERS: Answer(
        Layer.STREAM_GRAPH, "stream_edges", ("target", "in_index"), "partitioner", pl.String()
    ),
    Decision.CHAINING: Answer(
        Layer.STREAM_GRAPH, "stream_edges", ("target", "in_index"), "chainable", pl.Boolean()
    ),
    Decision.SLOT_SHARING_GROUPS: Answer(
        Layer.JOB_GRAPH, "job_vertices", ("vertex",), "slot_sharing_group", pl.String()
    ),
    Decision.EXECUTION_SLOT_SHARING_GROUPS: Answer(
        Layer.EXECUTION_GRAPH,
        "execution_vertices",
        ("vertex", "subtask"),
        "execution_slot_sharing_group",
        pl.Int64(),
    ),
}
"""The answer that each decision takes; PLAN takes a dict of whole tables."""


def decides(decision: DecisionName | Decision) -> Callable[[Function], Function]:
    """Mark a function as one that makes `decision` (see Decision) in place of Flink's rule.

    The parameters of the function name the tables that it reads (see docs/planners-of-your-own.md).

    Raises ConfigurationError if there is no such decision.
    """
    try:
        marked_decision = Decision(decision)
    except ValueError:
        allowed = ", ".join(Decision)
        raise ConfigurationError(f"decides({decision!r}): allowed {allowed}") from None

    def mark(function: Function) -> Function:
        setattr(function, ATTRIBUTE, marked_decision)
        return function

    return mark


Tables = Mapping[str, pl.DataFrame]
