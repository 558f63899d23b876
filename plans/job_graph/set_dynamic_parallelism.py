"""The parallelism of a vertex before it is decided, and what replaces it on its way to the cluster."""

from penstock.plans.topology.flink_options import PARALLELISM_OVERRIDES

NOT_DECIDED = -1
"""A parallelism or max parallelism that Flink decides later: in dynamic graphs, or when the job starts.

Source: ExecutionConfig.PARALLELISM_DEFAULT, JobVertex.MAX_PARALLELISM_DEFAULT.
"""

OVERRIDES_KEY = PARALLELISM_OVERRIDES.key
"""In `config` of JOB_SETTINGS, a JSON object of ids of vertices and texts; see job_settings."""

OVERRIDE_NUMBER = "^-?[0-9]{1,10}$"
"""Texts that may be 32-bit integers: JOB_SETTINGS holds all of them in ASCII digits without a plus."""
