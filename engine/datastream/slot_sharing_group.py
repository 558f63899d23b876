"""Slots, their names and what they hold.

Source: pyflink.datastream.slot_sharing_group; org.apache.flink.api.common.operators.SlotSharingGroup;
org.apache.flink.configuration.MemorySize.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import total_ordering

_SUFFIXES = ((1 << 40, "tb"), (1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))


@total_ordering
class MemorySize:
    """A number of bytes. ValueError where it is negative."""

    def __init__(self, bytes_size: int) -> None:
        if bytes_size < 0:
            raise ValueError(f"{bytes_size} bytes: at least 0")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """`mebi_bytes` times 1048576 bytes."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """In bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """In whole KiB."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """In whole MiB."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """In whole GiB."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """In whole TiB."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise TypeError(f"a MemorySize cannot be compared with {other!r}")
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        for unit, suffix in _SUFFIXES:
            if self._bytes >= unit and self._bytes % unit == 0:
                return f"{self._bytes // unit} {suffix}"
        return f"{self._bytes} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name, and what one of its slots holds; None: not said. Made with `builder`."""

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Managed memory."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Heap memory of tasks."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Memory of tasks beside the heap."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Cores, or parts of them."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Other resources by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Starts a group of this name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Collects what a slot holds."""

        def __init__(self, name: str) -> None:
            self._group = SlotSharingGroup(name)

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores, above 0. ValueError for others."""
            if cpu_cores <= 0:
                raise ValueError(f"{cpu_cores} cores: more than 0")
            return self._with(_cpu_cores=cpu_cores)

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap memory of tasks, above 0. ValueError for 0."""
            if not task_heap_memory.get_bytes():
                raise ValueError("task heap memory 0: more than 0")
            return self._with(_task_heap_memory=task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the heap memory of tasks in MiB, above 0."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of tasks beside the heap."""
            return self._with(_task_off_heap_memory=task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of tasks beside the heap in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the managed memory."""
            return self._with(_managed_memory=managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the managed memory in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set another resource."""
            return self._with(_external_resources={**self._group._external_resources, name: value})

        def build(self) -> SlotSharingGroup:
            """The group. ValueError where some of cores and heap memory is set and not both.

            Source: SlotSharingGroup.Builder.build.
            """
            group = self._group
            if group._cpu_cores is not None and group._task_heap_memory is not None:
                zero = MemorySize(0)
                return replace(
                    group,
                    _task_off_heap_memory=group._task_off_heap_memory or zero,
                    _managed_memory=group._managed_memory or zero,
                )
            if group != SlotSharingGroup(group._name):
                raise ValueError("cores and task heap memory are needed where any resource is set")
            return group

        def _with(self, **changed: object) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, **changed)  # type: ignore[arg-type]
            return self
