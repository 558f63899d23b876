"""Cluster defaults for settings that a job leaves unset.

Flink's client overlays the configuration with the job's own options, key by key. So a topology is planned as
if it contained both: its fingerprint, its configuration and Flink's own plan of it depend on both. Source:
StreamExecutionEnvironment (configure), CliFrontend.getEffectiveConfiguration.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class JobDefaults(NamedTuple):
    """Parallelism for topologies that set none, and Flink options overlaid by each topology's own.

    `asked_parallelism` replaces the parallelism that topologies set themselves; operators keep their own.
    """

    parallelism: int = 1
    config: Mapping[str, str] = {}
    asked_parallelism: int | None = None

    def under(self, topology: dict[str, Any]) -> dict[str, Any]:
        """Return `topology` with its unset values filled in; values of wrong types stay."""
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
"""Flink's defaults: parallelism 1 and no options."""
