"""The kinds of errors an input can have: the `error` of a `TopologyError` that is not Flink's."""

from enum import StrEnum

INPUT_STAGE = "input"
"""`error_stage` of everything that is wrong with a topology before Flink would see it."""

STREAM_GRAPH_STAGE = "stream_graph"
"""`error_stage` of what Flink's StreamGraphGenerator refuses before it translates anything."""

EACH_NAME_ONCE = "each name once in a run"
RENAME_ONE = "rename one of them, or plan them in two runs"
"""What is allowed, and what to do, where a name or its hash comes twice."""


class ErrorKind(StrEnum):
    """Reasons to reject a topology, at stage `input` unless they name another one."""

    LINE_TOO_LONG = "LineTooLong"  #: more bytes than a line may have; the line is not read
    NOT_JSON = "NotJson"  #: the line is not one JSON value
    NOT_AN_OBJECT = "NotAnObject"  #: JSON, but no object where one belongs
    DUPLICATE_KEY = "DuplicateKey"  #: an object of the line has a key more than once
    MISSING_KEY = "MissingKey"
    UNKNOWN_KEY = "UnknownKey"
    KEY_NOT_ALLOWED = "KeyNotAllowed"  #: a known key on a kind (or form) that does not take it
    WRONG_TYPE = "WrongType"
    OUT_OF_RANGE = "OutOfRange"  #: right type, value out of range or of the wrong shape
    UNKNOWN_VALUE = "UnknownValue"  #: not in the closed vocabulary of its key
    UNKNOWN_KIND = "UnknownKind"
    INVALID_OPTION_VALUE = "InvalidOptionValue"  #: a Flink option whose value Flink could not parse
    EMPTY_TOPOLOGY = "EmptyTopology"
    DUPLICATE_ID = "DuplicateId"
    ID_OUT_OF_ORDER = "IdOutOfOrder"  #: ids are not 1..n in creation order
    WRONG_NUMBER_OF_INPUTS = "WrongNumberOfInputs"
    DANGLING_INPUT = "DanglingInput"  #: an input that no transformation has as its id
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
    TOPOLOGY_ID_MISMATCH = "TopologyIdMismatch"  #: table input: topology_id is not the xxhash64 of the name
