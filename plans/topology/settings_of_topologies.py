"""Options and job settings of one topology of a table."""

from collections.abc import Mapping
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.job_settings import read_job_settings
from penstock.plans.topology.setting_refusals import FlinkRefusal


def settings_or_errors(
    topology: Mapping[str, Any], reads_unbounded: bool
) -> tuple[str | None, list[TopologyError], dict[str, Any] | None]:
    """Stage and errors of a TOPOLOGIES row with right values, or its job settings."""
    try:
        derived = read_job_settings(
            dict(topology["config"]),
            topology_name=topology["name"],
            parallelism=topology["parallelism"],
            max_parallelism=topology["max_parallelism"],
            chaining=topology["chaining"],
            transformations_have_unbounded_source=reads_unbounded,
        )
    except FlinkRefusal as refusal:
        return refusal.error_stage, refusal.as_topology_errors(), None
    return None, [], derived
