"""The allowed values and hints for errors in rows of given tables."""

from penstock.plans.error_kinds import EACH_NAME_ONCE, RENAME_ONE, ErrorKind

ALLOWED_AND_HINT = {
    ErrorKind.NO_TOPOLOGY: (
        "a topology_id of topologies",
        "topology_id is the xxhash64 of the topology's name",
    ),
    ErrorKind.TOPOLOGY_ID_MISMATCH: (
        "the xxhash64 of the topology's name",
        "compute it with Spark's xxhash64(name), or leave the column out",
    ),
    ErrorKind.DUPLICATE_TOPOLOGY_NAME: (EACH_NAME_ONCE, RENAME_ONE),
    ErrorKind.UNKNOWN_VALUE: (
        "form transformations, or no column form",
        "give a stream graph as a line of a topology file",
    ),
    ErrorKind.TOPOLOGY_ID_COLLISION: ("each topology_id once in a run", RENAME_ONE),
}
"""Of the errors that a topology's own row can have."""
