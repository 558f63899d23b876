"""Disjoint sets over hashable items."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class UnionFind(Generic[Item]):
    """Keeps the order of first appearance inside groups and among them."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._parent = {item: item for item in items}

    def find(self, item: Item) -> Item:
        root = item
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[item] != root:
            self._parent[item], item = root, self._parent[item]
        return root

    def union(self, a: Item, b: Item) -> None:
        self._parent[self.find(b)] = self.find(a)

    def groups(self) -> list[list[Item]]:
        found: dict[Item, list[Item]] = {}
        for item in self._parent:
            found.setdefault(self.find(item), []).append(item)
        return list(found.values())
