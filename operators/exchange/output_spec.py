"""The facts that a subtask needs to write to a JobEdge, and to read a gate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.common.typeinfo import TypeInformation


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """One JobEdge at its producing end."""

    source_node: int  #: the operator of the chain that writes to it
    tag: str | None  #: side output; None: the main one
    edge: int  #: number of the JobEdge in the job
    partitioner: str  #: forward, rebalance, rescale, shuffle, broadcast, global, hash or custom
    type_info: TypeInformation | None
    consumers: int  #: subtasks of the consumer
    consumer_max_parallelism: int
    #: of each subtask of the producer: first subtask that reads it, and how many do (ExecutionGraph)
    reading: tuple[tuple[int, int], ...]
    key_selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None
    custom_partitioner: Callable[[Any, int], int] | None = None
    consumer_name: str = ""  #: the operator that reads it
    limit: int | None = None  #: the consumer takes no more records than these; None: all
    #: records after which a subtask ends and tells its readers that it was cut off; None: no limit
    budget_bytes: int | None = None
    #: the driver reads it while the job runs: what there is leaves soon, and nothing is kept on the disk
    to_driver: bool = False
    #: the consumer wants the records of a key group together (BATCH, keyed)
    grouped: bool = False
    #: the consumer reads this one before its others (broadcast state in any mode)
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class GateSpec:
    """One JobEdge at its consuming end."""

    edge: int
    input_number: int  #: of the head operator, from 1
    target_node: int
    type_info: TypeInformation | None
    grouped: bool = False
    first: bool = False
