"""TaskManager against TaskExecutorProcessUtils, for sizes and options that fit and that do not."""

from typing import Any

import pytest

from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.divide_memory import MemoryOptions, TaskManager
from penstock.plans.topology.flink_options import parse_memory_size
from tests.plans.resources.flink_resources import rows

FIELDS = {
    "taskmanager.memory.jvm-metaspace.size": "jvm_metaspace_bytes",
    "taskmanager.memory.jvm-overhead.min": "jvm_overhead_min_bytes",
    "taskmanager.memory.jvm-overhead.max": "jvm_overhead_max_bytes",
    "taskmanager.memory.jvm-overhead.fraction": "jvm_overhead_fraction",
    "taskmanager.memory.framework.heap.size": "framework_heap_bytes",
    "taskmanager.memory.framework.off-heap.size": "framework_off_heap_bytes",
    "taskmanager.memory.task.off-heap.size": "task_off_heap_bytes",
    "taskmanager.memory.network.min": "network_min_bytes",
    "taskmanager.memory.network.max": "network_max_bytes",
    "taskmanager.memory.network.fraction": "network_fraction",
    "taskmanager.memory.managed.fraction": "managed_fraction",
    "taskmanager.memory.flink.size": "flink_bytes",
    "taskmanager.memory.managed.size": "managed_bytes",
    "taskmanager.memory.task.heap.size": "task_heap_bytes",
}
COMPONENTS = ("framework_heap", "framework_off_heap", "task_heap", "task_off_heap", "network", "managed")


def task_manager(row):
    options: dict[str, Any] = {
        FIELDS[key]: float(value) if key.endswith("fraction") else parse_memory_size(value)
        for key, value in row["options"].items()
    }
    return TaskManager(row["process_size"], row["slots"], MemoryOptions(**options))


def test_memory_is_flinks():
    accepted = [row for row in rows("task_manager") if "memory" in row]
    assert len(accepted) > 50
    for row in accepted:
        found = task_manager(row)
        assert {name: getattr(found, name) for name in row["memory"]} == row["memory"], row
        assert found.network_buffers(32768) == row["network_buffers"], row


def test_what_flink_refuses_is_refused():
    refused = [row for row in rows("task_manager") if "error" in row]
    assert {row["error"] for row in refused} == {"IllegalConfigurationException"}
    for row in refused:
        with pytest.raises(ConfigurationError):
            task_manager(row)


@pytest.mark.parametrize("size", ["1728m", "4g", "64g"])
def test_the_parts_are_the_whole(size):
    found = TaskManager(size, slots=3)
    assert sum(getattr(found, f"{part}_bytes") for part in COMPONENTS) == found.flink_bytes
    outside = found.jvm_metaspace_bytes + found.jvm_overhead_bytes
    assert found.flink_bytes + outside == found.process_bytes == parse_memory_size(size)
    assert 0 <= found.managed_bytes - 3 * found.managed_bytes_per_slot < 3


def test_the_default_is_that_of_flinks_config_yaml():
    assert TaskManager() == TaskManager("1728m", 1)


@pytest.mark.parametrize(
    ("size", "options", "words"),
    [
        ("600m", {}, ("framework heap 128.0 MiB", "152.0 MiB", "taskmanager.memory.process.size")),
        ("300m", {}, ("JVM metaspace 256.0 MiB", "300.0 MiB", "taskmanager.memory.process.size")),
        ("much", {}, ("'much' does not start with a number", "1728m")),
        ("2g", {"network_max_bytes": 1}, ("network_min_bytes", "network_max_bytes")),
        ("2g", {"managed_fraction": 0.99999999}, ("managed_fraction", "less than 1")),
        ("2g", {"python_weight": -1}, ("python_weight must be 0 to", "got -1")),
    ],
)
def test_a_refusal_says_what_to_change(size, options, words):
    with pytest.raises(ConfigurationError) as refused:
        TaskManager(size, 1, MemoryOptions(**options))
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_pool_of_more_buffers_than_an_int_is_refused():
    with pytest.raises(ConfigurationError, match=r"network\.max"):
        TaskManager("1000t").network_buffers(32768)
