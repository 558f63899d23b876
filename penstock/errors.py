"""The errors that Penstock raises on purpose: all are PenstockErrors, with messages for users to read."""

from penstock.plans.errors import (
    BrokenInvariantError,
    ConfigurationError,
    InputError,
    JobCancelledError,
    JobCompileError,
    JobExecutionError,
    LostResultsError,
    LostTopologiesError,
    MachineError,
    NotEnoughMemoryError,
    PenstockError,
    RefusedTopologiesError,
    SchemaError,
    StoreError,
    WorseVerdictError,
)

__all__ = [
    "BrokenInvariantError",
    "ConfigurationError",
    "InputError",
    "JobCancelledError",
    "JobCompileError",
    "JobExecutionError",
    "LostResultsError",
    "LostTopologiesError",
    "MachineError",
    "NotEnoughMemoryError",
    "PenstockError",
    "RefusedTopologiesError",
    "SchemaError",
    "StoreError",
    "WorseVerdictError",
]
