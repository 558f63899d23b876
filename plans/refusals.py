"""Flink's exceptions, and what Penstock adds to a refusal of Flink's."""

UNSUPPORTED_OPERATION = "UnsupportedOperationException"
ILLEGAL_STATE = "IllegalStateException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
ALLOWED = "what Apache Flink 2.3.0 plans"
HINT = "Flink refuses this job; change the job as the message says"
