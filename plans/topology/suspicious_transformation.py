"""The kinds that are physical, and the columns that only operators have."""

from penstock.plans.vocabulary import VIRTUAL_KINDS, WRITTEN_KINDS

PHYSICAL = [str(kind) for kind in WRITTEN_KINDS if kind not in VIRTUAL_KINDS]
OPERATOR_COLUMNS = (
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "co_location_group",
    "buffer_timeout",
    "chaining",
    "min_resources",
    "preferred_resources",
)
"""Null on virtual kinds."""
