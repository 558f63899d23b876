"""The common base of the connectors of PyFlink's API. Source: pyflink.datastream.connectors.base."""

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from penstock.operators.connectors.sink import Sink
from penstock.operators.connectors.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]


class DeliveryGuarantee(Enum):
    """How often a record may arrive. Every sink here delivers exactly once, by its one commit."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class StreamTransformer(ABC):
    """Does something to a stream before a sink takes it."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """The stream that the sink takes, of the DataStream `ds`."""


class SupportsPreprocessing(ABC):
    """A sink that wants something done to the stream before."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """The transformation to apply; None for nothing."""
