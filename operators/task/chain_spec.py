"""The content of one JobVertex, as data that a Spark task receives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.exchange.output_spec import GateSpec, OutputSpec


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """One operator of a chain."""

    node: int  #: its stream node
    name: str
    function: str = ""  #: of an operator that was fused of several: which of its functions this is
    operator: Any  #: an Operator; a Source where `source`
    output_type: TypeInformation | None = None
    side_output_types: Mapping[str, TypeInformation | None] = field(default_factory=dict)
    source: bool = False
    splits: tuple[tuple[Any, ...], ...] = ()  #: of a source: what each subtask reads


@dataclass(frozen=True, kw_only=True)
class ChainedEdge:
    """An edge inside a chain: a direct call."""

    source_node: int
    target_node: int
    input_number: int = 1
    tag: str | None = None
    #: Whether records take their declared type here: where they leave an operator of Python functions.
    encodes: bool = False


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """A JobVertex: its operators, head first, how they hang together, and its ends in the network."""

    vertex: int
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorSpec, ...]
    edges: tuple[ChainedEdge, ...]
    outputs: tuple[OutputSpec, ...]
    gates: tuple[GateSpec, ...]
