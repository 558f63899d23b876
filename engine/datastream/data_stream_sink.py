"""The end of a stream.

Source: org.apache.flink.streaming.api.datastream.DataStreamSink.
"""

from __future__ import annotations

from penstock.engine.datastream.environment_options import EnvironmentOptions
from penstock.engine.datastream.operator_settings import check_parallelism, check_uid_hash
from penstock.engine.datastream.set_slot_sharing_group import set_slot_sharing_group
from penstock.engine.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.runtime.transformations import Call, Transformation
from penstock.operators.common.arguments import require_text


class DataStreamSink:
    """A registered sink; its methods name and place it."""

    def __init__(self, environment: EnvironmentOptions, transformation: Transformation) -> None:
        self._environment = environment
        self._transformation = transformation

    def name(self, name: str) -> DataStreamSink:
        """Name the sink."""
        self._transformation.name = require_text(name, "name")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink an id that stays the same when the job changes; unique in the job."""
        self._transformation.uid = None if uid is None else require_text(uid, "uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the sink's id itself: 32 hex digits. ValueError for anything else.

        TypeError for a sink of `sink_to`, as in Flink: it becomes operators with ids of their own.
        """
        if self._transformation.call is Call.SINK_TO:
            raise TypeError(
                "set_uid_hash: only sink functions (add_sink) take a uid hash, not sink_to; use uid"
            )
        self._transformation.uid_hash = check_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Number of subtasks, -1 for the environment's. ValueError below."""
        self._transformation.parallelism = check_parallelism(parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """A longer text about the sink, for plans."""
        self._transformation.description = require_text(description, "description")
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Do not chain the sink to its input."""
        self._transformation.chaining = "NEVER"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Put the sink's subtasks into slots of this group."""
        set_slot_sharing_group(self._transformation, slot_sharing_group)
        return self
