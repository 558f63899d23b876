"""Cluster defaults for settings that a job leaves unset.

Flink's client puts a job's own options over those of its configuration, key by key. A topology is therefore
planned as if it held both: its fingerprint, its configuration and Flink's own plan of it follow from both.
Source: StreamExecutionEnvironment (configure), CliFrontend.getEffectiveConfiguration.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class JobDefaults(NamedTuple):
    """Parallelism of topologies that set none, and Flink options under each topology's own.

    `asked_parallelism` replaces the parallelism that topologies set themselves; operators keep their own.
    """

    parallelism: int = 1
    config: Mapping[str, str] = {}
    asked_parallelism: int | None = None

    def under(self, topology: dict[str, Any]) -> dict[str, Any]:
        """The topology with what it does not set; values of wrong types stay as they are."""
        if self == NO_DEFAULTS:
            return topology
        filled = dict(topology)
        filled.setdefault("parallelism", self.parallelism)
        own_parallelism = filled["parallelism"]
        if self.asked_parallelism is not None and type(own_parallelism) is int and own_parallelism > 0:
            filled["parallelism"] = self.asked_parallelism
        own = filled.get("config", {})
        if self.config and type(own) is dict:
            filled["config"] = {**self.config, **own}
        return filled


NO_DEFAULTS = JobDefaults()
"""Flink's own: parallelism 1, and no options."""
