"""Puts an operator or sink into a slot sharing group.

Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator.slotSharingGroup.
"""

from penstock.engine.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.runtime.transformations import Transformation
from penstock.operators.common.arguments import require_text


def set_slot_sharing_group(one: Transformation, group: str | SlotSharingGroup) -> None:
    """Put `one` into the group."""
    if isinstance(group, SlotSharingGroup):
        one.slot_sharing_group = group.get_name()
        one.slot_resources = group.slot_resources()
    else:
        one.slot_sharing_group, one.slot_resources = require_text(group, "slot sharing group"), ()
