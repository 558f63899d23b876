"""The hierarchy of Penstock's errors.

Errors of a run (`InputError`, `StoreError`, …) are raised. Errors of one topology are values
(`TopologyError`) that become rows of the `rejected` table and are never raised, so a bad topology cannot stop
a batch.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.plans.printable import printable_lines

# Kinds of input errors: the `error` of each `TopologyError` that does not come from Flink.


INPUT_STAGE = "input"
"""`error_stage` of every error that is detected before Flink would see the topology."""

STREAM_GRAPH_STAGE = "stream_graph"
"""`error_stage` of topologies that Flink's StreamGraphGenerator refuses before it translates anything."""

EACH_NAME_ONCE = "each name once in a run"
RENAME_ONE = "rename one of them, or plan them in two runs"
"""`allowed` and `hint` of errors about a name, or its hash, that occurs twice."""


class ErrorKind(StrEnum):
    """Reasons to reject a topology; at stage `input` unless the comment names another stage."""

    LINE_TOO_LONG = "LineTooLong"  #: more bytes than a line may have; the line is not read
    NOT_JSON = "NotJson"  #: the line is not one JSON value
    NOT_AN_OBJECT = "NotAnObject"  #: JSON, but not an object where an object is required
    DUPLICATE_KEY = "DuplicateKey"  #: an object of the line has a key more than once
    MISSING_KEY = "MissingKey"
    UNKNOWN_KEY = "UnknownKey"
    KEY_NOT_ALLOWED = "KeyNotAllowed"  #: a known key on a kind (or form) that does not take it
    WRONG_TYPE = "WrongType"
    OUT_OF_RANGE = "OutOfRange"  #: right type, value out of range or of the wrong shape
    UNKNOWN_VALUE = "UnknownValue"  #: not in the closed vocabulary of the key
    UNKNOWN_KIND = "UnknownKind"
    INVALID_OPTION_VALUE = "InvalidOptionValue"  #: a Flink option with a value that Flink cannot parse
    EMPTY_TOPOLOGY = "EmptyTopology"
    DUPLICATE_ID = "DuplicateId"
    ID_OUT_OF_ORDER = "IdOutOfOrder"  #: ids are not 1..n in creation order
    WRONG_NUMBER_OF_INPUTS = "WrongNumberOfInputs"
    DANGLING_INPUT = "DanglingInput"  #: an input that is not the id of any transformation
    FORWARD_INPUT = "ForwardInput"  #: an input that is created after its user
    CYCLE = "Cycle"
    TOO_MANY_EDGES = "TooManyEdges"  #: unions of unions that expand to more edges than a plan can hold
    TOO_MANY_TASKS = "TooManyTasks"  #: stage execution_graph: more tasks than a plan can hold
    DANGLING_EDGE = "DanglingEdge"  #: a stream edge, source or sink that names an unknown node
    DUPLICATE_EDGE = "DuplicateEdge"
    EDGE_LIST_MISMATCH = "EdgeListMismatch"  #: in_edges or out_edges of a node do not match the edges
    DUPLICATE_TOPOLOGY_NAME = "DuplicateTopologyName"
    TOPOLOGY_ID_COLLISION = "TopologyIdCollision"  #: two different names with one xxhash64
    NO_TOPOLOGY = "NoTopology"  #: table input: transformations of a topology that is not in `topologies`
    MORE_ERRORS = "MoreErrors"  #: follows the first errors of a topology: the number of further ones
    TOPOLOGY_ID_MISMATCH = "TopologyIdMismatch"  #: table input: topology_id is not the name's xxhash64


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose.

    Args:
        message: A sentence that names the place, the allowed values and the value that was given.
        hint: A way out; None without one.

    Examples:
        >>> try:
        ...     penstock.plan("missing.jsonl")
        ... except penstock.PenstockError as error:
        ...     print(type(error).__name__, error.exit_code)
        InputError 3
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(printable_lines(message if hint is None else f"{message}\n  hint: {hint}"))
        self.message = message
        self.hint = hint


class ConfigurationError(PenstockError):
    """An option, an argument or the environment is wrong; exit code 2."""

    exit_code = 2


class InputError(PenstockError):
    """An input cannot be read at all; exit code 3.

    A missing file, a folder without topologies, damaged gzip.
    """

    exit_code = 3


class NotEnoughMemoryError(PenstockError):
    """The work does not fit in memory, as predicted or as found while it runs; exit code 9."""

    exit_code = 9


class SchemaError(PenstockError):
    """A table has other columns or types than declared; exit code 1."""


class StoreError(PenstockError):
    """A store cannot be used: not a store, no such version, damaged, or another writer won; exit code 4."""

    exit_code = 4


class BrokenInvariantError(PenstockError):
    """A plan breaks an invariant of all plans, as a custom planner's decision may; exit code 1."""


class WorseVerdictError(PenstockError):
    """A savepoint verdict is worse than required; exit code 6."""

    exit_code = 6


class RefusedTopologiesError(PenstockError):
    """Topologies were refused where none may be; exit code 7."""

    exit_code = 7


class MachineError(PenstockError):
    """The machine refuses: no space, no permission, a read-only target, an I/O error; exit code 8."""

    exit_code = 8


class LostTopologiesError(PenstockError):
    """inputs != planned + rejected: a bug in Penstock, always reported; exit code 1."""


class JobCompileError(PenstockError):
    """A job cannot run, because Flink refuses its graph, or a feature that it uses is not supported here."""

    exit_code = 3


class JobExecutionError(PenstockError):
    """A job failed while it ran.

    Source: org.apache.flink.runtime.client.JobExecutionException.
    """


class LostResultsError(JobExecutionError):
    """Results that had been read in part were lost with an executor, and a second run produced other ones."""


class JobCancelledError(PenstockError):
    """A job was cancelled.

    Source: org.apache.flink.runtime.client.JobCancellationException.
    """

    exit_code = 130


@dataclass(frozen=True, slots=True)
class TopologyError:
    """One error of a topology.

    `error`: the kind (an ErrorKind, or the name of Flink's exception class); `location`: the node or edge
    ("transformation 7", "line 3 of fleet.jsonl"); `found`: the offending value; `allowed`: the allowed
    values; `hint`: a remedy.
    """

    error: str
    location: str
    found: str
    allowed: str
    hint: str

    @property
    def message(self) -> str:
        """The sentence in the `rejected` table."""
        parts = [f"{self.location}: found {self.found}"]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "; ".join(parts)


UNSUPPORTED_OPERATION = "UnsupportedOperationException"
ILLEGAL_STATE = "IllegalStateException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
NUMBER_FORMAT = "NumberFormatException"
ALLOWED = "a job that Apache Flink 2.3.0 plans"
HINT = "Flink refuses this job; change it according to the message"
