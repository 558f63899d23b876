"""Operators know their share of a slot's managed memory."""

from plans.vocabulary import ManagedMemoryUseCase

SLOT_SCOPE = (ManagedMemoryUseCase.STATE_BACKEND, ManagedMemoryUseCase.PYTHON)
