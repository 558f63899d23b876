"""Streams that have no operator of their own to be named, placed or chained.

Source: pyflink.datastream.data_stream.{KeyedStream,CachedDataStream}.
"""

from __future__ import annotations

from typing import NoReturn

from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings


class UnsettableStream(StreamSettings):
    """Every setting raises TypeError."""

    def _refuse(self, operation: str) -> NoReturn:
        raise TypeError(
            f"{operation} of a {type(self).__name__} is not supported: it has no operator of its own; "
            "do this on the stream before or after it"
        )

    def get_name(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        """Raises TypeError."""
        self._refuse("slot_sharing_group")

    def set_description(self, description: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_description")
