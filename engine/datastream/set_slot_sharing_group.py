"""Puts an operator or sink into a slot sharing group.

Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator.slotSharingGroup.
"""

from penstock.engine.datastream.environment_options import EnvironmentOptions
from penstock.engine.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.runtime.transformations import Transformation
from penstock.operators.common.arguments import require_text


def set_slot_sharing_group(
    one: Transformation, environment: EnvironmentOptions, group: str | SlotSharingGroup
) -> None:
    """Put `one` into the group; a group with resources is registered with the environment."""
    if isinstance(group, SlotSharingGroup):
        environment.register_slot_sharing_group(group)
        one.slot_sharing_group = group.get_name()
    else:
        one.slot_sharing_group = require_text(group, "slot sharing group")
