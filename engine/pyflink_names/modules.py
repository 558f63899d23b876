"""PyFlink's modules: those that Penstock has, and those that it refuses with a reason."""

from __future__ import annotations

#: PyFlink's version that names, signatures and behaviour are of.
PYFLINK_VERSION = "2.3.0"

_COMMON = (
    "completable_future",
    "config_options",
    "configuration",
    "constants",
    "execution_config",
    "input_dependency_constraint",
    "io",
    "job_client",
    "job_execution_result",
    "job_id",
    "job_status",
    "restart_strategy",
    "serialization",
    "serializer",
    "time",
    "typeinfo",
    "types",
    "watermark_strategy",
)

_DATASTREAM = (
    "async_data_stream",
    "async_retry_predicates",
    "async_retry_strategies",
    "checkpoint_config",
    "checkpoint_storage",
    "checkpointing_mode",
    "connectors",
    "connectors.base",
    "connectors.file_system",
    "connectors.number_seq",
    "data_stream",
    "execution_mode",
    "externalized_checkpoint_retention",
    "formats",
    "formats.csv",
    "formats.json",
    "formats.parquet",
    "functions",
    "output_tag",
    "slot_sharing_group",
    "state",
    "state_backend",
    "stream_execution_environment",
    "time_domain",
    "timerservice",
    "utils",
    "window",
)

#: Module of PyFlink to module of Penstock.
MODULES: dict[str, str] = {
    "pyflink.common": "penstock.engine.pyflink.common",
    **{f"pyflink.common.{name}": f"penstock.engine.pyflink.common.{name}" for name in _COMMON},
    "pyflink.datastream": "penstock.engine.pyflink.datastream",
    **{f"pyflink.datastream.{name}": f"penstock.engine.pyflink.datastream.{name}" for name in _DATASTREAM},
    "pyflink.metrics": "penstock.engine.pyflink.metrics",
    "pyflink.metrics.metricbase": "penstock.engine.pyflink.metrics",
    "pyflink.table": "penstock.engine.pyflink.table",
    "pyflink.table.types": "penstock.engine.pyflink.table",
    "pyflink.version": "penstock.engine.pyflink_names.version",
}

_CAPTURE = "`penstock capture` plans such a script"
_TABLE = f"the Table API is not part of Penstock; Spark SQL runs queries, and {_CAPTURE}"
_JAR = (
    "it needs Flink's Java connector; Penstock reads and writes files, Delta tables and Spark DataFrames, "
    f"and {_CAPTURE}"
)
JAVA_REASON = "there is no JVM of Flink to talk to"

#: Module of PyFlink, with all below it, to why it is not there.
REFUSED_MODULES: dict[str, str] = {
    "pyflink.table": _TABLE,
    "pyflink.datastream.connectors.kafka": _JAR,
    "pyflink.datastream.connectors.dynamic_kafka": _JAR,
    "pyflink.datastream.connectors.jdbc": _JAR,
    "pyflink.datastream.connectors.kinesis": _JAR,
    "pyflink.datastream.connectors.elasticsearch": _JAR,
    "pyflink.datastream.connectors.rabbitmq": _JAR,
    "pyflink.datastream.connectors.pulsar": _JAR,
    "pyflink.datastream.connectors.cassandra": _JAR,
    "pyflink.datastream.connectors.hybrid_source": "its parts are unbounded sources; read them one by one",
    "pyflink.datastream.formats.avro": "Avro needs Flink's jars; CSV, JSON and Parquet are supported",
    "pyflink.datastream.formats.orc": "ORC needs Flink's jars; CSV, JSON and Parquet are supported",
    "pyflink.common.utils": JAVA_REASON,
    "pyflink.java_gateway": JAVA_REASON,
    "pyflink.pyflink_gateway_server": JAVA_REASON,
    "pyflink.pyflink_callback_server": JAVA_REASON,
    "pyflink.find_flink_home": JAVA_REASON,
    "pyflink.util": JAVA_REASON,
    "pyflink.serializers": "records are serialized by Penstock itself",
    "pyflink.fn_execution": "these are the workers of PyFlink; Spark's run here",
    "pyflink.gen_protos": "these are the workers of PyFlink; Spark's run here",
    "pyflink.testing": "these are PyFlink's own tests",
    "pyflink.shell": "there is no shell; use python",
    "pyflink.examples": "copy an example to a file of your own and run that",
}


def refusal(module: str) -> str | None:
    """Why `module`, or one above it, is refused; None where it is not."""
    name = module
    while name:
        if name in REFUSED_MODULES:
            return REFUSED_MODULES[name]
        name = name.rpartition(".")[0]
    return None
