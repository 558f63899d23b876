"""Use cases, state backends and fractions of managed memory, for both planners."""

from decimal import Decimal
from itertools import compress, product

from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.vocabulary import ManagedMemoryUseCase

USE_CASES = tuple(ManagedMemoryUseCase)
_FRACTION_SCALE = 16
STATE_BACKEND = "state.backend.type"
DEPRECATED_STATE_BACKEND = "state.backend"
BATCH_STATE_BACKEND_ENABLED = "execution.batch-state-backend.enabled"
HASHMAP = "hashmap"
HASHMAP_FACTORY = "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory"


def fractions_of_slot(use_case: ManagedMemoryUseCase, task_manager: TaskManager) -> list[float]:
    """The share of a slot for all consumers of `use_case`, for each bit set of active use cases."""
    options = task_manager.options
    weight = {
        ManagedMemoryUseCase.OPERATOR: options.operator_weight,
        ManagedMemoryUseCase.STATE_BACKEND: options.state_backend_weight,
        ManagedMemoryUseCase.PYTHON: options.python_weight,
    }
    fractions = []
    for bits in product((False, True), repeat=len(USE_CASES)):
        active = set(compress(USE_CASES, bits))
        total = sum(weight[other] for other in active)
        shares = use_case in active and total > 0
        fractions.append(_rounded_down(weight[use_case], total) if shares else 0.0)
    return fractions


def _rounded_down(weight: int, total: int) -> float:
    """weight / total, cut off after the 16th decimal. Source: ManagedMemoryUtils.getFractionRoundedDown."""
    return float(Decimal(weight * 10**_FRACTION_SCALE // total).scaleb(-_FRACTION_SCALE))
