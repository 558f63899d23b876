"""What PyFlink keeps in pyflink.datastream.utils and scripts can use without Flink's JVM."""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.engine.pyflink.common.typeinfo import TypeInformation

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """Something, such as a source, that knows the type of what it produces."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type."""
