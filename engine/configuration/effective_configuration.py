"""The effective settings of the cluster, of jobs and of Spark."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.engine.configuration.cluster_options import NO_CLUSTER_SETTINGS, ClusterSettings, Setting
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults


class EffectiveConfiguration(NamedTuple):
    """Settings by key (an option's own key, even if it was set under another one), grouped by reader.

    `overridden`: settings of lower levels that a higher level replaces, by key. `scripts`: options for jobs
    and for running (from -D, all), which settings of scripts override. `spark`: Spark properties, which
    override spark-defaults.conf.
    """

    settings: Mapping[str, Setting] = {}
    overridden: Mapping[str, tuple[Setting, ...]] = {}
    cluster: ClusterSettings = NO_CLUSTER_SETTINGS
    job_defaults: JobDefaults = NO_DEFAULTS
    scripts: Mapping[str, str] = {}
    spark: Mapping[str, str] = {}


NOTHING_CONFIGURED = EffectiveConfiguration()
"""No files and no -D."""
