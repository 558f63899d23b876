"""The resources that a job vertex sums over its chain."""

RESOURCES = ("min_resources", "preferred_resources")
RESOURCE_FIELDS = (
    "cpu_cores",
    "task_heap_memory_bytes",
    "task_off_heap_memory_bytes",
    "managed_memory_bytes",
)
