"""Puts an operator or sink into a slot sharing group.

Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator.slotSharingGroup.
"""

from typing import Any

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
        one.slot_resources = _resources(group)
    else:
        one.slot_sharing_group, one.slot_resources = require_text(group, "slot sharing group"), ()


def _resources(group: SlotSharingGroup) -> tuple[Any, ...]:
    memory = (group.get_task_heap_memory(), group.get_task_off_heap_memory(), group.get_managed_memory())
    external = tuple(sorted(group.get_external_resources().items()))
    given = (group.get_cpu_cores(), *memory, external or None)
    return () if set(given) == {None} else given
