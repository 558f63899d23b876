"""What the tests of drawn plans read out of pictures."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.plan_tables import PlanTables, plan_in_memory
from penstock.engine.views.draw.drawn_plan import plan_of_topology
from tests.project.hostile_text import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"

ATTACKS = (
    "<script>alert(1)</script>",
    "--> ]]> <!-- \"quoted\" 'quoted' &amp; \\",
    'end"]; x --> y %% `md` {{ jinja }} {% raw %}',
    "</svg></title></style><img src=x onerror=alert(1)>",
    HOSTILE,
    "long " * 60,
    "日本語の演算子名" * 20,
)


class Rectangle(NamedTuple):
    """A box of a picture, absolute."""

    key: str
    kind: str
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "Rectangle") -> bool:
        """Whether they have more than an edge in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def rectangles(svg: ElementTree.Element) -> Iterator[Rectangle]:
    """The boxes of a picture."""
    for group in svg.iter(f"{SVG}g"):
        kind = group.get("class", "").split()
        if kind[:1] == ["node"]:
            x, y = map(float, re.findall(r"-?[\d.]+", group.get("transform", "")))
            box = next(one for one in group if one.get("class") == "box")
            size = (float(box.get("width", "")), float(box.get("height", "")))
            yield Rectangle(group.get("data-key", ""), kind[1], x, y, *size)


def hostile_topology(name: str = ATTACKS[0]) -> dict[str, Any]:
    """A job whose every name is an attack."""
    operators = [
        {
            "id": 2 * place,
            "kind": "one_input",
            "name": attack,
            "inputs": [2 * place - 1],
            "slot_sharing_group": attack,
        }
        for place, attack in enumerate(ATTACKS, 1)
    ]
    partitions = [
        {"id": 2 * place + 1, "kind": "partition", "inputs": [2 * place], "partitioner": "hash"}
        for place in range(1, len(ATTACKS) + 1)
    ]
    rest = sorted([*operators, *partitions], key=lambda one: int(str(one["id"])))[:-1]
    return {"name": name, "transformations": [{"id": 1, "kind": "source", "name": ATTACKS[1]}, *rest]}


def planned(*topologies: dict[str, Any], name: str | None = None) -> PlanTables:
    """The plan of one of these."""
    return plan_of_topology(plan_in_memory("here", plan_in_process(list(topologies)).tables, {}, None), name)
