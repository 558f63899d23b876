"""The memory of a TaskManager, out of values of options."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.engine.configuration.cluster_options import CONSUMER_WEIGHTS, MEMORY_FIELDS, WEIGHT_FIELDS
from penstock.plans.resources.memory_options import FLINK_MEMORY, MemoryOptions


def memory_options(values: Mapping[str, Any]) -> MemoryOptions:
    """What `values`, those of all options of the cluster, say. ConfigurationError for an empty range."""
    weights = values[CONSUMER_WEIGHTS.key]
    return replace(
        FLINK_MEMORY,
        **{field: values[key] for key, field in MEMORY_FIELDS.items()},
        **{field: weights.get(str(use_case), 0) for use_case, field in WEIGHT_FIELDS.items()},
    )
