"""Refusals: topologies that Flink itself would not plan, with its exception class and message."""

UNSUPPORTED_OPERATION = "UnsupportedOperationException"
ILLEGAL_STATE = "IllegalStateException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
ALLOWED = "what Apache Flink 2.3.0 plans"
HINT = "Flink refuses this job; change the job as the message says"
