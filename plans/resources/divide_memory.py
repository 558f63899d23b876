"""The memory of a TaskManager is divided into its parts."""

from collections.abc import Mapping
from decimal import Context, Decimal

from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.memory_options import MemoryOptions, as_flink_float

_EXACT = Context(prec=60)
_PROCESS = "taskmanager.memory.process.size"
_FLINK = "taskmanager.memory.flink.size"


def divide_memory(process: int | None, options: MemoryOptions) -> dict[str, int]:
    """Bytes of every part, by the name of its field of TaskManager.

    `process`: memory of the process, None if `options` decide it (see decides_process_size). Parts that are
    not configured are derived: the task heap (or, if that is configured, the network memory) is the rest of
    Flink's memory; the overhead is the rest of the process after Flink's memory and the metaspace.

    Raises ConfigurationError if the parts exceed their whole, or a derived part is out of its range.

    Source: ProcessMemoryUtils.memoryProcessSpecFromConfig, TaskExecutorFlinkMemoryUtils.
    """
    if options.task_heap_bytes is not None and options.managed_bytes is not None:
        inside = _divide_heap_and_managed(options.task_heap_bytes, options.managed_bytes, options)
        overhead = _overhead_beside(inside["flink_bytes"], process, options)
    elif options.flink_bytes is not None:
        inside = _divide_flink_memory(options.flink_bytes, options, _FLINK)
        overhead = _overhead_beside(options.flink_bytes, process, options)
    elif process is not None:
        overhead = _overhead_of(process, options)
        inside = _divide_flink_memory(process - options.jvm_metaspace_bytes - overhead, options, _PROCESS)
    else:
        raise ConfigurationError("a TaskManager has no size", f"set {_PROCESS} or {_FLINK}")
    return {
        "process_bytes": inside["flink_bytes"] + options.jvm_metaspace_bytes + overhead,
        "jvm_metaspace_bytes": options.jvm_metaspace_bytes,
        "jvm_overhead_bytes": overhead,
        **inside,
    }


def _divide_heap_and_managed(task_heap: int, managed: int, options: MemoryOptions) -> dict[str, int]:
    without_network = {**_fixed(options), "task_heap_bytes": task_heap, "managed_bytes": managed}
    if options.flink_bytes is None:
        beside = _inverse_share(sum(without_network.values()), options.network_fraction)
        network = _within(beside, options.network_min_bytes, options.network_max_bytes)
    else:
        network = _rest_for_network(options.flink_bytes, without_network, options, _FLINK)
    return _whole({**without_network, "network_bytes": network})


def _divide_flink_memory(flink: int, options: MemoryOptions, configured: str) -> dict[str, int]:
    managed = options.managed_bytes
    if managed is None:
        managed = _share(flink, options.managed_fraction)
    parts = {**_fixed(options), "managed_bytes": managed}
    if options.task_heap_bytes is not None:
        parts["task_heap_bytes"] = options.task_heap_bytes
        return _whole({**parts, "network_bytes": _rest_for_network(flink, parts, options, configured)})
    share = _share(flink, options.network_fraction)
    parts["network_bytes"] = _within(share, options.network_min_bytes, options.network_max_bytes)
    _require_flink(flink, parts, configured)
    return _whole({**parts, "task_heap_bytes": flink - sum(parts.values())})


def _rest_for_network(flink: int, parts: Mapping[str, int], options: MemoryOptions, configured: str) -> int:
    _require_flink(flink, parts, configured)
    rest = flink - sum(parts.values())
    least, most = options.network_min_bytes, options.network_max_bytes
    if not least <= rest <= most:
        raise ConfigurationError(
            f"network memory is what other parts leave of Flink memory of {_human(flink)}: found "
            f"{_human(rest)}, allowed {_human(least)} to {_human(most)}",
            f"change {configured}, or taskmanager.memory.network.min or max",
        )
    return rest


def _overhead_of(process: int, options: MemoryOptions) -> int:
    share = _share(process, options.jvm_overhead_fraction)
    overhead = _within(share, options.jvm_overhead_min_bytes, options.jvm_overhead_max_bytes)
    _require(
        process,
        {"JVM metaspace": options.jvm_metaspace_bytes, "JVM overhead": overhead},
        "process memory",
        f"raise {_PROCESS}, or lower taskmanager.memory.jvm-metaspace.size or jvm-overhead.min",
    )
    return overhead


def _overhead_beside(flink: int, process: int | None, options: MemoryOptions) -> int:
    """Overhead where Flink's memory is configured."""
    least, most = options.jvm_overhead_min_bytes, options.jvm_overhead_max_bytes
    inside = flink + options.jvm_metaspace_bytes
    if process is None:
        return _within(_inverse_share(inside, options.jvm_overhead_fraction), least, most)
    rest = process - inside
    if not least <= rest <= most:
        raise ConfigurationError(
            f"JVM overhead is what Flink memory of {_human(flink)} and JVM metaspace of "
            f"{_human(options.jvm_metaspace_bytes)} leave of process memory of {_human(process)}: found "
            f"{_human(rest)}, allowed {_human(least)} to {_human(most)}",
            f"configure {_PROCESS} or Flink's memory, not both",
        )
    return rest


def _fixed(options: MemoryOptions) -> dict[str, int]:
    names = ("framework_heap_bytes", "framework_off_heap_bytes", "task_off_heap_bytes")
    return {name: getattr(options, name) for name in names}


def _whole(parts: Mapping[str, int]) -> dict[str, int]:
    return {"flink_bytes": sum(parts.values()), **parts}


def _require_flink(flink: int, parts: Mapping[str, int], configured: str) -> None:
    of_process = " (process memory without JVM metaspace and overhead)" if configured == _PROCESS else ""
    named = {_NAMES[name]: size for name, size in parts.items()}
    _require(
        flink,
        named,
        f"Flink memory{of_process}",
        f"raise {configured}, or lower a part, such as taskmanager.memory.managed.fraction or network.min",
    )


_NAMES = {
    "framework_heap_bytes": "framework heap",
    "framework_off_heap_bytes": "framework off-heap",
    "task_heap_bytes": "task heap",
    "task_off_heap_bytes": "task off-heap",
    "managed_bytes": "managed",
    "network_bytes": "network",
}


def _share(total: int, fraction: float) -> int:
    """Source: MemorySize.multiply, which is exact in the fraction's digits and cuts off."""
    return int(_EXACT.multiply(Decimal(total), as_flink_float(fraction)))


def _inverse_share(others: int, fraction: float) -> int:
    """The part that is `fraction` of the whole, besides `others`. Source: deriveWithInverseFraction."""
    of_whole = float(as_flink_float(fraction))
    return int(_EXACT.multiply(Decimal(others), Decimal(repr(of_whole / (1 - of_whole)))))


def _within(size: int, least: int, most: int) -> int:
    return min(max(size, least), most)


def _require(total: int, parts: Mapping[str, int], of_what: str, hint: str) -> None:
    if sum(parts.values()) > total:
        named = ", ".join(f"{name} {_human(size)}" for name, size in parts.items())
        raise ConfigurationError(
            f"a TaskManager is too small: {named} together exceed its {of_what} of {_human(total)}", hint
        )


def _human(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
