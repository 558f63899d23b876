"""The parallelism of a vertex before it is decided, and its overrides on the cluster."""

from penstock.plans.topology.flink_options import PARALLELISM_OVERRIDES

NOT_DECIDED = -1
"""A parallelism or max parallelism that Flink decides later: in dynamic graphs, or when the job starts.

Source: ExecutionConfig.PARALLELISM_DEFAULT, JobVertex.MAX_PARALLELISM_DEFAULT."""

OVERRIDES_KEY = PARALLELISM_OVERRIDES.key
"""Key in `config` of JOB_SETTINGS; the value is a JSON object of vertex ids and texts (see job_settings)."""

OVERRIDE_NUMBER = "^-?[0-9]{1,10}$"
"""Pattern of possible 32-bit integers; JOB_SETTINGS has all of them in ASCII digits without a plus sign."""
