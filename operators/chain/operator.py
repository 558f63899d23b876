"""The base of all operators of a chain: records in, records out, watermarks in between.

Records travel in lists, not one by one: a list of values with a parallel list of timestamps. So an operator
is called once per list, not once per record. It handles the records of a list in order, so only the time of
side effects differs.

Source: org.apache.flink.streaming.api.operators.{AbstractStreamOperator,Output,OneInputStreamOperator,
TwoInputStreamOperator} and OperatorChain, for the calls and their order.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from penstock.operators.chain.describe_error import NO_RECORD, describe_error, describe_record, hint_for
from penstock.operators.chain.user_errors import EnoughResults, UserFunctionError

Values = list[Any]
#: Milliseconds since the epoch, one per value; None instead of a list: no value has one.
Timestamps = list[int | None] | None

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


def _now() -> int:
    return time.time_ns() // 1_000_000


class Output(Protocol):
    """The receiver of an operator's results: the operators chained to it, side outputs and the network."""

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the main output; the lists are the receiver's from here on."""

    def collect_side(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Records of a side output, by the tag's id."""

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Records of the main output that never became Python objects."""

    def watermark(self, timestamp: int) -> None:
        """No record below `timestamp` (milliseconds) follows."""


@dataclass(kw_only=True)
class OperatorContext:
    """The facts that an operator may know about where it runs."""

    job_name: str = "job"
    task_name: str = "task"
    operator_name: str = "operator"
    function_name: str = ""  #: the function of an operator that was fused of several
    subtask: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt_number: int = 0
    batch: bool = False  #: BATCH runtime mode: keyed operators see one key after the other
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)  #: distributed cache: name to local path
    state_memory_bytes: int = 256 << 20  #: keyed state beyond this goes to disk
    auto_watermark_interval_milliseconds: int = 200
    #: results are declared as single values or tuples of these, which are immutable
    plain_results: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)  #: of the user's functions, by name
    #: milliseconds since the epoch; tests put a clock of their own here
    processing_time: Callable[[], int] = field(default=_now)


class Operator:
    """One operator of a chain: made on the driver, then per subtask setup, open, process…, finish, close.

    Subclasses hold the user's function and what else describes them in attributes set by `__init__` (all of
    it picklable), and keep what is only alive in a subtask out of them until `open`.
    """

    #: True: takes record batches (`process_batch`); records are converted before they reach it.
    columnar: ClassVar[bool] = False
    #: True: has a key selector per input, and keeps state by key.
    keyed: ClassVar[bool] = False
    #: True: its records have to be of their declared type, though nothing encodes them on their way to it.
    wants_declared_types: bool = False

    context: OperatorContext
    output: Output

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Called once in the subtask, before `open` of any operator of the chain."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called tail first: the operators that read this one are open already."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the only input, or of the first of two."""
        raise NotImplementedError

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second of two inputs."""
        raise NotImplementedError

    def process_input(self, number: int, values: Values, timestamps: Timestamps) -> None:
        """Records of input `number`, from 1."""
        if number == 1:
            self.process(values, timestamps)
        else:
            self.process_second(values, timestamps)

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """A record batch of the only input, of operators that are `columnar`."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """The watermark of all inputs together has risen to this (milliseconds)."""
        self.output.watermark(watermark)

    def end_key(self) -> None:
        """BATCH mode, keyed operators: no record of the current key follows; forget its state."""

    def finish(self) -> None:
        """No input follows; called head first, after the last watermark. Results may still be put out."""

    def close(self) -> None:
        """Release everything. Called at the end, head first, also after a failure."""

    def failed(self, error: BaseException, value: Any, during: str = "") -> UserFunctionError:
        """As `failure` does, for this operator."""
        return failure(self.context, error, value, during)


def failure(
    context: OperatorContext, error: BaseException, value: Any, during: str = ""
) -> UserFunctionError:
    """`error` with the job, operator, subtask and record (`value`; NO_RECORD: none) it happened at.

    `during` says what the operator was about where that is not its function. Raises `error` itself where it
    has been described before, and where it only ends the chain's calls.
    """
    if isinstance(error, (UserFunctionError, EnoughResults)):
        raise error
    if context.function_name:
        during = f"{context.function_name}: {during}" if during else f"{context.function_name} raised"
    return UserFunctionError(
        job=context.job_name,
        operator=context.operator_name,
        subtask=context.subtask,
        record="" if value is NO_RECORD else describe_record(value),
        cause=describe_error(error),
        during=during,
        hint=hint_for(error),
    )
