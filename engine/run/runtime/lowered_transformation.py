"""Transformations as PyFlink hands them to Flink, with what each of their operators runs.

Source: org.apache.flink.api.dag.Transformation and its subclasses; the operators of
org.apache.flink.streaming.api.operators.python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.common.typeinfo import TypeInformation


class PythonOperator(StrEnum):
    """The kinds of operators in which PyFlink runs Python functions, which decide what is fused.

    In process mode a window is a KEYED_PROCESS operator.
    """

    PROCESS = "process"
    KEYED_PROCESS = "keyed process"
    WINDOW = "window"
    CO_PROCESS = "co-process"
    KEYED_CO_PROCESS = "keyed co-process"
    BROADCAST = "broadcast"


class Compaction(StrEnum):
    """Whether the author of a file sink has asked for its files to be compacted."""

    ENABLED = "enabled"
    DISABLED = "disabled"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function of an operator: a call of the script, or what PyFlink adds to it."""

    name: str  #: the call's operator name, before fusing
    transformation: int  #: id of the transformation that it was before fusing
    operator: Any  #: an operator, Source or Sink of package `operators`; None: records pass as they are
    pickled: Any = None  #: `operator` as it was when the call was made: this one runs
    output_type: TypeInformation | None
    kind: str  #: the call's kind
    call: Transformation | None  #: the call; None: PyFlink adds the step
    key_selectors: tuple[Callable[[Any], Any], ...] = ()


@dataclass(eq=False, kw_only=True)
class LoweredTransformation:
    """One transformation of PyFlink's list, or one that they read. `kind` as in a topology file."""

    id: int
    kind: str
    name: str
    inputs: list[LoweredTransformation] = field(default_factory=list)
    description: str | None = None
    parallelism: int  #: -1: the job's
    parallelism_configured: bool = False
    max_parallelism: int = -1
    slot_sharing_group: str | None = None
    slot_resources: tuple[Any, ...] = ()  #: of its slot sharing group, if it has any
    co_location_group: str | None = None
    uid: str | None = None
    uid_hash: str | None = None
    buffer_timeout: int = -1
    chaining: str = "ALWAYS"
    managed_memory: dict[str, int] = field(default_factory=dict)
    slot_scope: set[str] = field(default_factory=set)
    min_resources: dict[str, Any] | None = None
    preferred_resources: dict[str, Any] | None = None

    python: PythonOperator | None = None
    thread_mode: bool = False  #: of a Python operator
    keyed_inputs: tuple[bool, ...] = ()  #: of a keyed operator: which inputs have a key selector
    operator_factory: str = "SimpleOperatorFactory"
    input_format: bool = False
    coordinated: bool = False
    yielding: bool = False
    supports_concurrent_execution_attempts: bool = True
    commits: bool | None = None  #: of a sink of the Sink V2 API: whether a committer follows its writer
    compaction: Compaction | None = None  #: of a sink of files, if it says whether larger ones are made
    output_type: TypeInformation | None = None

    # kind partition
    partitioner: str | None = None
    exchange_mode: str = "UNDEFINED"
    aligned: bool = False  #: no unaligned checkpoints, whatever the partitioner
    partition_call: Transformation | None = None  #: the call with selectors and custom partitioner
    # kind side_output
    tag: str | None = None
    # kind cache
    cache: str | None = None  #: id of its data set; of what writes or reads it, too
    filled: bool = False  #: an earlier job has computed it
    cached: LoweredTransformation | None = None  #: what it keeps

    steps: tuple[Step, ...] = ()  #: what it runs, in order; none for virtual kinds
    #: What the author of its call had set when it was made; None for what no call stands for alone.
    author_settings: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class NotFused:
    """Why two Python operators that could be one are two: ids of both, and the reasons."""

    source: int
    target: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LostSetting:
    """A setting of a call that PyFlink forgets when it fuses the call's operator with the one before."""

    setting: str  #: uid, uid_hash or name
    value: str
    name: str  #: of the operator that had it
    fused_into: str  #: name of the fused operator
    line: str | None  #: file:line of the call


@dataclass(frozen=True)
class InputEdge:
    """What the StreamGraph does not say of one of its edges."""

    partition: LoweredTransformation | None  #: the one that decides how records travel
    side_output: LoweredTransformation | None
    number: int  #: input of the target, from 1


@dataclass(frozen=True)
class GeneratedGraph:
    """A StreamGraph, and what its nodes and edges were."""

    stream_graph: dict[str, Any]  #: as in a topology file
    physical: dict[int, LoweredTransformation]  #: by node
    edges: dict[str, InputEdge]  #: by edge_id
    next_id: int  #: of Flink's counter, after the translation


@dataclass(frozen=True, kw_only=True)
class LoweredJob:
    """What a script's calls become: PyFlink's list of transformations, and what happened on the way."""

    transformations: list[LoweredTransformation]  #: in the order in which Flink translates them
    not_fused: tuple[NotFused, ...] = ()
    lost_settings: tuple[LostSetting, ...] = ()
    #: The StreamGraph as it is submitted, and as it runs here: in BATCH mode, where Flink's scheduler finds
    #: the parallelism of an operator while the job runs, with that of the script.
    submitted: GeneratedGraph
    to_run: GeneratedGraph
