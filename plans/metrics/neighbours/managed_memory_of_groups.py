"""Managed memory of the fullest slot, for slot sharing groups that change."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from penstock.plans.job_graph.refuse_job_graphs import MAX_INT
from penstock.plans.resources.columnar.size_managed_memory import state_backend_uses_managed_memory
from penstock.plans.resources.size_managed_memory import USE_CASES, fractions_of_slot
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.topology.operator_rules import SLOT_SCOPE
from penstock.plans.vocabulary import ManagedMemoryUseCase

_OPERATOR = ManagedMemoryUseCase.OPERATOR
_CUT = 10**16


class _Consumer(NamedTuple):
    """A node that uses managed memory: its weight (None: it has none), and its use cases of slot scope."""

    place: int
    weight: int | None
    scopes: frozenset[str]


class ManagedMemoryOfGroups:
    """Bytes that operators of the fullest slot use; see set_managed_memory_fractions, size_managed_memory."""

    def __init__(
        self, tables: Mapping[str, pl.DataFrame], places: Mapping[int, int], task_manager: TaskManager
    ) -> None:
        """`places`: of the nodes by id."""
        self._consumers = []
        rows = tables["stream_nodes"].select(
            "id",
            weighs=pl.col("managed_memory").map.len() > 0,
            weight=pl.col("managed_memory").map.get(_OPERATOR.value).fill_null(0),
            scopes="slot_scope",
        )
        for node, weighs, weight, scopes in rows.iter_rows():
            if weighs or scopes:
                self._consumers.append(_Consumer(places[node], weight if weighs else None, frozenset(scopes)))
        self._of_slot = float(task_manager.managed_bytes_per_slot)
        self._shares = {use_case: fractions_of_slot(use_case, task_manager) for use_case in USE_CASES}
        uses = tables["job_settings"].select(state_backend_uses_managed_memory(task_manager.state_backend))
        self._managed_state: bool = uses.item()
        self._known: dict[tuple[int, ...], int | None] = {}

    def bytes_of_fullest(self, heads: Any, group_of_head: Any) -> int | None:
        """Both by place. None where weights of a group overflow."""
        members: dict[int, list[int]] = {}
        for number, consumer in enumerate(self._consumers):
            head = heads[consumer.place]
            if head >= 0:
                members.setdefault(group_of_head[head], []).append(number)
        most = 0
        for numbers in members.values():
            key = tuple(numbers)
            if key not in self._known:
                self._known[key] = self._bytes([self._consumers[number] for number in numbers])
            found = self._known[key]
            if found is None:
                return None
            most = max(most, found)
        return most

    def _bytes(self, consumers: list[_Consumer]) -> int | None:
        weights = [consumer.weight for consumer in consumers if consumer.weight is not None]
        total = sum(weights)
        if total > MAX_INT:
            return None
        scopes = [scope for scope in SLOT_SCOPE if any(scope.value in one.scopes for one in consumers)]
        present = {*scopes, *([_OPERATOR] if weights else [])}
        if not self._managed_state:
            present.discard(ManagedMemoryUseCase.STATE_BACKEND)
        active = 0
        for use_case in USE_CASES:
            active = active * 2 + (use_case in present)
        used = sum(self._share(_OPERATOR, _cut(weight, total), active) for weight in weights if weight > 0)
        return used + sum(self._share(scope, 1.0, active) for scope in scopes)

    def _share(self, use_case: ManagedMemoryUseCase, fraction: float, active: int) -> int:
        return int(self._of_slot * (fraction * self._shares[use_case][active]))


def _cut(weight: int, total: int) -> float:
    """weight / total, cut off after the 16th decimal."""
    scaled = weight * _CUT // total
    return float(f"{scaled // _CUT}.{scaled % _CUT:016d}")
