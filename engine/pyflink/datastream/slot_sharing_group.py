"""Groups of operators that share slots, and the resources of their slots.

Source: pyflink.datastream.slot_sharing_group, org.apache.flink.configuration.MemorySize,
org.apache.flink.api.common.operators.SlotSharingGroup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, NoReturn

from penstock.operators.common.arguments import no_java, require_kind, require_text

_UNITS = ("bytes", "kb", "mb", "gb", "tb")


@total_ordering
class MemorySize:
    """A number of bytes.

    Args:
        j_memory_size: Must be None: Java objects are refused.
        bytes_size: Bytes, 0 or more.

    Raises:
        NoJavaError: A Java object.
        TypeError: Not an int.
        ValueError: Negative.

    Examples:
        >>> from penstock.datastream import MemorySize
        >>> str(MemorySize.of_mebi_bytes(1024))
        '1 gb'
    """

    def __init__(self, j_memory_size: Any = None, bytes_size: int | None = None) -> None:
        if j_memory_size is not None:
            no_java("MemorySize of a Java object")
        if not isinstance(bytes_size, int):
            raise TypeError(f"bytes_size must be an int, got {bytes_size!r}")
        if bytes_size < 0:
            raise ValueError(f"bytes_size must not be negative, got {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make a size.

        Args:
            mebi_bytes: Units of 1,048,576 bytes, 0 or more.

        Returns:
            MemorySize: The size.

        Raises:
            ValueError: Negative.
            TypeError: Not an int.
        """
        return MemorySize(bytes_size=mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Return the size in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the size in units of 1024 bytes, rounded down."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """Return the size in units of 1024^2 bytes, rounded down."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """Return the size in units of 1024^3 bytes, rounded down."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """Return the size in units of 1024^4 bytes, rounded down."""
        return self._bytes >> 40

    def get_java_memory_size(self) -> NoReturn:
        """NoJavaError, always."""
        no_java("MemorySize.get_java_memory_size")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise TypeError(f"a MemorySize can be compared only with another one, got {other!r}")
        return self._bytes < other._bytes

    def __str__(self) -> str:
        # Flink uses the largest unit that divides the size, except terabytes
        size, unit = self._bytes, 0
        while size and size % 1024 == 0 and unit < len(_UNITS) - 1:
            size, unit = size >> 10, unit + 1
        if unit == len(_UNITS) - 1 or not self._bytes:
            return f"{self._bytes} bytes"
        return f"{size} {_UNITS[unit]}"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name of a slot sharing group, and the resources of its slots.

    Examples:
        >>> from penstock.datastream import SlotSharingGroup
        >>> builder = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512)
        >>> builder.build().get_task_heap_memory().get_mebi_bytes()
        512
    """

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory of a slot; None: not set."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the heap memory of a slot; None: not set."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory of a slot outside the heap; None: not set."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return the cores of a slot; None: not set."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return other resources of a slot by name, such as GPUs."""
        return dict(self._external_resources)

    def slot_resources(self) -> tuple[Any, ...]:
        """Return the resources of a slot. Penstock's own: PyFlink lacks it.

        Returns:
            tuple: Cores, heap, off-heap and managed memory, other resources; empty if none are set.
        """
        memory = (self._task_heap_memory, self._task_off_heap_memory, self._managed_memory)
        external = tuple(sorted(self._external_resources.items()))
        resources = (self._cpu_cores, *memory, external or None)
        return () if set(resources) == {None} else resources

    def get_java_slot_sharing_group(self) -> NoReturn:
        """NoJavaError, always."""
        no_java("SlotSharingGroup.get_java_slot_sharing_group")

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Start building a group.

        Args:
            name: Its name.

        Returns:
            Builder: Sets cores and memory; `build()` ends it.
        """
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Builds a SlotSharingGroup: a group with resources needs cores and heap memory."""

        def __init__(self, name: str) -> None:
            self._name = require_text(name, "name")
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores of a slot.

            Args:
                cpu_cores: A float above 0.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                TypeError: Not a float.
                ValueError: Not above 0.
            """
            if require_kind(cpu_cores, float, "cpu_cores") <= 0:
                raise ValueError(f"cpu_cores must be positive, got {cpu_cores}")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap memory of a slot.

            Args:
                task_heap_memory: A MemorySize above 0.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                ValueError: 0 bytes.
            """
            if not task_heap_memory.get_bytes():
                raise ValueError("task_heap_memory must be positive, got 0 bytes")
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the heap memory of a slot in mebibytes.

            Args:
                task_heap_memory_mb: Units of 1,048,576 bytes, 1 or more.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                TypeError: Not an int.
                ValueError: Below 1.
            """
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of a slot outside the heap.

            Args:
                task_off_heap_memory: A MemorySize; default 0 if cores and heap memory are set.

            Returns:
                SlotSharingGroup.Builder: This builder.
            """
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of a slot outside the heap in mebibytes.

            Args:
                task_off_heap_memory_mb: Units of 1,048,576 bytes, 0 or more.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                TypeError: Not an int.
                ValueError: Below 0.
            """
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the managed memory of a slot.

            Args:
                managed_memory: A MemorySize; default 0 if cores and heap memory are set.

            Returns:
                SlotSharingGroup.Builder: This builder.
            """
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the managed memory of a slot in mebibytes.

            Args:
                managed_memory_mb: Units of 1,048,576 bytes, 0 or more.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                TypeError: Not an int.
                ValueError: Below 0.
            """
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set another resource of a slot.

            Args:
                name: Its name, such as "gpu".
                value: Its amount: a float.

            Returns:
                SlotSharingGroup.Builder: This builder.

            Raises:
                TypeError: Not a string and a float.
            """
            self._external_resources[require_text(name, "name")] = require_kind(value, float, "value")
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group.

            Returns:
                SlotSharingGroup: For `slot_sharing_group` of a stream.

            Raises:
                ValueError: Resources without cores or heap memory.
            """
            off_heap, managed = self._task_off_heap_memory, self._managed_memory
            if self._cpu_cores is not None and self._task_heap_memory is not None:
                zero = MemorySize(bytes_size=0)
                off_heap, managed = off_heap or zero, managed or zero
            elif (self._cpu_cores, self._task_heap_memory, off_heap, managed) != (None,) * 4 or (
                self._external_resources
            ):
                raise ValueError(
                    f"slot sharing group {self._name!r}: resources must include cores and task heap memory"
                )
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                self._task_heap_memory,
                off_heap,
                managed,
                dict(self._external_resources),
            )
