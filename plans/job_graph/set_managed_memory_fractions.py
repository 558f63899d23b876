"""Use cases of managed memory that have the scope of a slot."""

from plans.vocabulary import ManagedMemoryUseCase

SLOT_SCOPE = (ManagedMemoryUseCase.STATE_BACKEND, ManagedMemoryUseCase.PYTHON)
