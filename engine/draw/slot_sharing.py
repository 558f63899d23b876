"""Slot sharing groups as a legend and as facts."""

from penstock.engine.draw.drawn_plan import DrawnPlan
from penstock.engine.draw.graph import Group


def slot_sharing(plan: DrawnPlan) -> tuple[Group, ...]:
    """The groups of a plan by number; none where it has no job graph."""
    rows = plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    groups = [Group(row["slot_sharing_group"], row["name"]) for row in rows]
    return tuple(sorted(groups, key=lambda group: group.number))
