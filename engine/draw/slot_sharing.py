"""Slot sharing groups as a legend and as facts."""

from penstock.engine.draw.drawn_plan import DrawnPlan
from penstock.engine.draw.graph import Group


def slot_sharing(plan: DrawnPlan) -> tuple[Group, ...]:
    """The groups of a plan by number; none where it has no job graph."""
    rows = plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    groups = [Group(row["slot_sharing_group"], row["name"]) for row in rows]
    return tuple(sorted(groups, key=lambda group: group.number))


def required_slots(plan: DrawnPlan) -> dict[int, int]:
    """Group to the slots that it needs; empty where the plan has no slots."""
    rows = plan.rows("required_slots", "slot_sharing_group", "slots")
    return {row["slot_sharing_group"]: row["slots"] for row in rows}
