"""How a topology of one side differs from the one of the other side."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.engine.views.diff.keyed_plans import TOTALS, Totals
from penstock.engine.views.diff.savepoint_verdicts import (
    KEEP_ALL_IDS,
    KEEP_IDS,
    Restored,
    RestoreFrom,
    Verdict,
)
from penstock.plans.savepoint.restore_savepoint import Failure


class Change(StrEnum):
    """The ways in which a topology can differ."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    EQUAL = "equal"


@dataclass(frozen=True)
class TopologyDiff:
    """One topology that is not equal.

    `refused`: side ("old", "new") to why Flink or Penstock refused it there.
    `restored`: Flink's answer to the state of the old one; None if there is none, or the new one was refused.
    `lost`, `taken`, `mismatched` and `warnings` as LostOperators, `operators` and all after as ChangedPlans,
    of this topology.
    """

    name: str
    change: Change
    refused: Mapping[str, Failure] = field(default_factory=dict)
    restored: Restored | None = None
    lost: list[dict[str, Any]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    mismatched: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    operators: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    split: list[dict[str, Any]] = field(default_factory=list)
    joined: list[dict[str, Any]] = field(default_factory=list)
    data_sets: list[dict[str, Any]] = field(default_factory=list)
    totals: Totals = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """What becomes of the state; None if there is nothing to restore."""
        if "new" in self.refused and "old" not in self.refused:
            return Verdict.NOT_PLANNED
        if self.restored is None:
            return None
        verdict = self.restored.verdict
        warned = self.taken or any(row["has_state"] for row in self.warnings)
        return Verdict.RESTORES_WITH_WARNINGS if warned and verdict is Verdict.RESTORES else verdict

    @property
    def hint(self) -> str:
        """A way out of the verdict."""
        if self.verdict is Verdict.REFUSED and self.restored and self.restored.last_state:
            return KEEP_ALL_IDS
        if any(row.get("suggestion") for row in (*self.lost, *self.mismatched)):
            return KEEP_IDS
        if self.verdict is Verdict.RESTORES_WITH_WARNINGS:
            return "keep their keys and kind; or give them new uids, which starts them without state"
        return "no id or setting keeps all of this state: the output names the operators"

    def as_json(self) -> dict[str, Any]:
        """In the form of docs/comparing.md."""
        said: dict[str, Any] = {"name": self.name, "change": self.change, "verdict": self.verdict}
        if self.refused:
            said["refused"] = {side: why._asdict() for side, why in self.refused.items()}
        if self.restored is not None:
            said |= self.restored.answers()
            said |= {"lost": self.lost, "taken": self.taken, "mismatched": self.mismatched}
            said |= {"warnings": self.warnings}
            said |= {"operators": dict(self.operators)}
            said |= {"chains": {"split": self.split, "joined": self.joined}, "data_sets": self.data_sets}
            said |= {name: _old_and_new(self.totals.get(name)) for name in TOTALS}
        return said

    @property
    def changes_plan(self) -> bool:
        """Whether anything of the plan that is compared differs."""
        changes = (*self.operators.values(), self.split, self.joined, self.data_sets)
        return any(changes) or bool(self.totals)


@dataclass
class Counts:
    """How many there are: topologies by change, verdicts, and what has changed in topologies by kind.

    `source`: what the new jobs restore their state from.
    """

    source: RestoreFrom = RestoreFrom.SAVEPOINT
    topologies: Counter[Change] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    taken: int = 0
    mismatched: int = 0
    warned: int = 0
    chains: Counter[str] = field(default_factory=Counter)
    data_sets: Counter[str] = field(default_factory=Counter)
    totals: Totals = field(default_factory=dict)

    def add(self, topology: TopologyDiff) -> None:
        """Count one more that is not equal."""
        self.topologies[topology.change] += 1
        self.refused.update(list(topology.refused))
        if topology.verdict is not None:
            self.verdicts[topology.verdict] += 1
        self.operators.update({change: len(rows) for change, rows in topology.operators.items()})
        self.lost += sum(row["has_state"] for row in topology.lost)
        self.taken += len(topology.taken)
        self.mismatched += sum(row["has_state"] for row in topology.mismatched)
        self.warned += sum(row["has_state"] for row in topology.warnings)
        self.chains.update({"split": len(topology.split), "joined": len(topology.joined)})
        self.data_sets.update(row["change"] for row in topology.data_sets)
        self.data_sets.update(
            "other_type" for row in topology.data_sets if row["change"] == "changed" and "type" in row
        )
        for name, (old, new) in topology.totals.items():
            before = self.totals.get(name, (0, 0))
            self.totals[name] = (before[0] + old, before[1] + new)

    def as_json(self) -> dict[str, Any]:
        """In the form of docs/comparing.md."""
        return {
            "topologies": {change.value: self.topologies[change] for change in Change},
            "refused": {side: self.refused[side] for side in ("old", "new")},
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "state": {
                **{"lost": self.lost, "taken": self.taken, "mismatched": self.mismatched},
                "warnings": self.warned,
            },
            "operators": dict(self.operators),
            "chains": dict(self.chains),
            "data_sets": dict(self.data_sets),
            **{name: _old_and_new(self.totals.get(name, (0, 0))) for name in TOTALS},
        }


def _old_and_new(values: tuple[int, int] | None) -> dict[str, int] | None:
    return None if values is None else dict(zip(("old", "new"), values, strict=True))
