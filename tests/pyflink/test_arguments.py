"""What PyFlink 2.3.0 refuses when a call is made is refused then: arguments.txt, by ask_arguments.py."""

from pathlib import Path

import pytest

from penstock.engine.pyflink_names import install, installed, uninstall
from tests.pyflink import ask_arguments

LINES = Path(__file__).with_name("arguments.txt").read_text(encoding="utf-8").splitlines()

#: What PyFlink refuses and Penstock takes, and why.
TAKEN = {
    "RestartStrategies.fixed_delay_restart(3, 1000)": "in PyFlink 2.3 it calls a class of Flink 1",
    "RestartStrategies.failure_rate_restart(3, 1000, 1000)": "in PyFlink 2.3 it calls a class of Flink 1",
    'OutputTag("a", "INT")': "a type of Spark's, as text",
    'env.from_collection([1], "INT")': "a type of Spark's, as text",
    'stream().map(lambda value: value, "INT")': "a type of Spark's, as text",
    'stream().key_by(lambda value: value, "INT")': "a type of Spark's, as text",
    "stream().key_by(lambda value: value, [Types.INT()])": "a list of types stands for a row, as elsewhere",
}
#: Refused at once what PyFlink takes, and fails with when the job runs, or never notices.
REFUSED_EARLY = (
    "WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(-1))",
    "BucketAssigner.date_time_bucket_assigner(",
    "StreamFormat.text_line_format(",
    "Encoder.simple_string_encoder(",
    "FileSink.for_row_format(",
    "Types.",
    "Time.",
    "ValueStateDescriptor(",
    "ListStateDescriptor(",
    "MapStateDescriptor(",
    "stream().process(",
    "stream().map(lambda value: value).name(None)",
    "windowed().",
    "all_windowed().",
    "CsvRowDeserializationSchema.Builder(Types.ROW([Types.INT()])).set_field_delimiter(",
)


@pytest.fixture(scope="module")
def outcomes():
    was_installed = installed()
    install()
    names: dict[str, object] = {}
    exec(ask_arguments.IMPORTS, names)
    found = {}
    for line in LINES:
        expression = line.partition(" ")[2]
        found[expression] = ask_arguments.outcome(expression, names)
    if not was_installed:
        uninstall()
    return found


@pytest.mark.slow
def test_what_pyflink_refuses_is_refused(outcomes):
    refused = [line.partition(" ")[2] for line in LINES if line.startswith("refused ")]
    assert len(refused) > 200
    assert {one for one in refused if outcomes[one] == "taken"} == set(TAKEN)


def test_what_pyflink_takes_is_taken(outcomes):
    taken = [line.partition(" ")[2] for line in LINES if line.startswith("taken ")]
    assert len(taken) > 150
    others = [one for one in taken if outcomes[one] == "refused" and not one.startswith(REFUSED_EARLY)]
    assert others == []
