"""Option values as Flink parses them, and the job settings it derives (asked of Flink 2.3.0)."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.plans.tables import JOB_SETTINGS
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import (
    OPTIONS,
    FlinkOption,
    parse_duration,
    parse_int,
    parse_long,
    parse_memory_size,
    parse_string,
)
from penstock.plans.topology.job_settings import (
    FlinkRefusal,
    SettingRefusal,
    read_job_settings,
    read_setting,
    read_stream_graph_settings,
)
from penstock.plans.topology.validate_transformations import reads_unbounded_source
from tests.plans.topology.builders import stream_graph


def settings_of(config: dict[str, str], unbounded: bool = False, **given: Any) -> dict[str, Any]:
    defaults = {"topology_name": "job", "parallelism": 1, "max_parallelism": None, "chaining": True}
    return read_job_settings(config, transformations_have_unbounded_source=unbounded, **{**defaults, **given})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("100", 100), ("10 s", 10_000), ("3min", 180_000), ("1 D", 86_400_000), ("7 µs", 0),
        ("1500 micros", 1),
        ("PT1M30S", 90_000), ("pt0.25s", 250), ("P1DT1H", 90_000_000), (" 5 ms ", 5), ("PT-5S", None),
        ("-1", None), ("5 lightyears", None), ("", None), ("PT", None), ("9223372036854775808", None),
    ],
)  # fmt: skip
def test_durations(text: str, milliseconds: int | None):
    if milliseconds is None:
        with pytest.raises(ValueError, match=r"\w"):
            parse_duration(text)
    else:
        assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 mb", 64 << 20), ("1024", 1024), ("2G", 2 << 30), ("3 kibibytes", 3072), ("1 tb", 1 << 40)],
)
def test_memory_sizes(text: str, size: int):
    assert parse_memory_size(text) == size


@pytest.mark.parametrize(
    ("parse", "units"),
    [
        (parse_memory_size, {1: "b bytes", 1 << 10: "k kb kibibytes", 1 << 20: "m mb mebibytes"}),
        (parse_memory_size, {1 << 30: "g gb gibibytes", 1 << 40: "t tb tebibytes"}),
        (parse_duration, {86_400_000: "d day days", 3_600_000: "h hour hours", 1: "ms milli millis"}),
        (parse_duration, {60_000: "min m minute minutes", 1_000: "s sec secs second seconds"}),
        (parse_duration, {1: "millisecond milliseconds", 0: "µs micro micros microsecond microseconds"}),
        (parse_duration, {0: "ns nano nanos nanosecond nanoseconds"}),
    ],
)
def test_every_unit(parse: Callable[[str], int], units: dict[int, str]):
    found = {unit: parse(f"1 {unit}") for names in units.values() for unit in names.split()}
    assert found == {unit: size for size, names in units.items() for unit in names.split()}
    assert parse_duration("1000000 nanoseconds") == parse_duration("1000 microsecond") == 1


@pytest.mark.parametrize("text", ["mb", "1.5 mb", "5 parsecs", "9223372036854775807 kb"])
def test_wrong_memory_sizes(text: str):
    with pytest.raises(ValueError, match=r"\w"):
        parse_memory_size(text)


PARSED = [option for option in OPTIONS if option.parse is not parse_string]


@pytest.mark.parametrize("option", PARSED, ids=lambda option: option.key)
def test_a_value_that_flink_cannot_parse_under_any_key(option: FlinkOption):
    for key in (option.key, *option.deprecated):
        with pytest.raises(SettingRefusal) as caught:
            read_setting({key: "x"}, option)
        assert caught.value.error == "IllegalArgumentException"
        ours = caught.value.ours
        assert (ours.error, ours.location) == ("InvalidOptionValue", f"config {key}")
        assert "'x'" in ours.found


def test_every_option_takes_its_own_values():
    for option in OPTIONS:
        for value in option.values:
            assert read_setting({option.key: value.lower()}, option) == value
    with pytest.raises(SettingRefusal) as caught:
        read_setting({"execution.runtime-mode": "BATHC"}, options.RUNTIME_MODE)
    assert caught.value.ours.hint == "did you mean BATCH?"


def test_settings_by_default():
    settings = settings_of({})
    assert set(settings) == set(JOB_SETTINGS.names) - {"topology_id"}
    assert settings["job_name"] == "job"
    assert settings["job_type"] == "STREAMING"
    assert settings["global_exchange_mode"] == "ALL_EDGES_PIPELINED"
    assert settings["buffer_timeout"] == 100
    assert settings["max_parallelism"] == -1
    assert settings["chaining_enabled"] is True
    assert settings["sort_inputs"] is False
    assert settings["all_vertices_in_same_slot_sharing_group"] is True


def test_settings_of_a_batch_job():
    config = {"execution.runtime-mode": "batch", "execution.checkpointing.interval": "1 min"}
    settings = settings_of(config)
    assert settings["job_type"] == "BATCH"
    assert settings["dynamic"] is True
    assert settings["global_exchange_mode"] == "ALL_EDGES_BLOCKING"
    assert settings["buffer_timeout"] == -1
    assert settings["checkpointing_interval_milliseconds"] == -1
    assert settings["sort_inputs"] is True
    assert settings["all_vertices_in_same_slot_sharing_group"] is False
    assert settings_of({**config, "jobmanager.scheduler": "default"})["dynamic"] is False
    hybrid = {**config, "execution.batch-shuffle-mode": "all_exchanges_hybrid_selective"}
    assert settings_of(hybrid)["global_exchange_mode"] == "ALL_EDGES_HYBRID_SELECTIVE"


def test_automatic_mode_asks_the_sources():
    config = {"execution.runtime-mode": "AUTOMATIC"}
    assert settings_of(config)["job_type"] == "BATCH"
    assert settings_of(config, unbounded=True)["job_type"] == "STREAMING"


def test_only_sources_that_operators_read_count():
    legacy: tuple[str, list[int]] = ("legacy_source", [])
    operator = ("sink", [1])
    assert reads_unbounded_source([legacy, operator])
    assert reads_unbounded_source([legacy, ("union", [1]), ("sink", [2])])
    assert not reads_unbounded_source([legacy, ("union", [1]), ("source", []), ("sink", [3])])
    assert not reads_unbounded_source([("source", []), operator])


def test_what_the_author_sets_wins_over_the_configuration():
    config = {
        "pipeline.max-parallelism": "64",
        "pipeline.name": "named",
        "pipeline.operator-chaining": "false",
    }
    settings = settings_of(config)
    assert (settings["max_parallelism"], settings["job_name"]) == (64, "named")
    assert settings["chaining_enabled"] is False
    assert settings_of(config, max_parallelism=8)["max_parallelism"] == 8
    assert settings_of({}, chaining=False)["chaining_enabled"] is False
    both = {"pipeline.operator-chaining": "false", "pipeline.operator-chaining.enabled": "true"}
    assert settings_of(both)["chaining_enabled"] is True


def test_checkpointing_and_restore():
    config = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned": "true",
        "execution.savepoint.path": "s3://x",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "pipeline.cached-files": "name:a,path:b",
    }
    settings = settings_of(config)
    assert settings["checkpointing_interval_milliseconds"] == 10_000
    assert settings["unaligned_checkpoints"] is True
    assert settings["savepoint_restore_path"] == "s3://x"
    assert settings["allow_non_restored_state"] is True
    assert settings["user_artifacts"] == {"a": "b"}
    assert (
        settings_of({**config, "execution.checkpointing.mode": "at_least_once"})["unaligned_checkpoints"]
        is False
    )
    assert settings_of({"execution.checkpointing.unaligned": "true"})["unaligned_checkpoints"] is False
    ignoring = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    assert settings_of(ignoring)["allow_non_restored_state"] is False


@pytest.mark.parametrize(
    ("config", "unbounded", "stage", "error", "message"),
    [
        (
            {"execution.runtime-mode": "BATCH"}, True, "stream_graph", "IllegalStateException",
            "Detected an UNBOUNDED source",
        ),
        (
            {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.enabled": "false"}, False,
            "stream_graph", "IllegalStateException", "Batch state backend requires the sorted inputs",
        ),
        (
            {"execution.state-recovery.approximate-local-recovery": "true",
             "execution.checkpointing.interval": "1 s", "execution.checkpointing.unaligned.enabled": "true"},
            False, "stream_graph", "IllegalStateException", "Approximate Local Recovery and Unaligned",
        ),
        (
            {"execution.runtime-mode": "BATCH", "execution.checkpointing.interval-during-backlog": "10 min"},
            False, "stream_graph", "IllegalArgumentException", "Checkpoint interval during backlog must",
        ),
    ],
)  # fmt: skip
def test_what_flink_refuses(config: dict[str, str], unbounded: bool, stage: str, error: str, message: str):
    with pytest.raises(FlinkRefusal) as caught:
        settings_of(config, unbounded)
    assert (caught.value.error_stage, caught.value.error) == (stage, error)
    assert caught.value.flink_message.startswith(message)


def test_settings_of_a_stream_graph():
    graph = stream_graph()["stream_graph"]
    graph.update(job_type="BATCH", global_exchange_mode="ALL_EDGES_BLOCKING", chaining_enabled=False)
    settings = read_stream_graph_settings(graph, {}, topology_name="g", parallelism=1, max_parallelism=None)
    assert set(settings) == set(JOB_SETTINGS.names) - {"topology_id"}
    assert settings["chaining_enabled"] is False
    assert settings["buffer_timeout"] == -1
    graph.update(job_type="STREAMING", checkpointing=True)
    config = {"execution.checkpointing.interval": "5 s"}
    settings = read_stream_graph_settings(
        graph, config, topology_name="g", parallelism=1, max_parallelism=None
    )
    assert settings["checkpointing_interval_milliseconds"] == 5000


def test_the_least_max_parallelism_is_kept():
    configs: tuple[dict[str, str], ...] = (
        {"pipeline.max-parallelism": "1"},
        {"pipeline.max-parallelism": "2"},
        {},
    )
    assert [settings_of(config)["max_parallelism"] for config in configs] == [1, 2, -1]


def test_intervals_that_flink_refuses_with_the_job_graph():
    config = {
        "execution.checkpointing.interval": "60 s",
        "execution.checkpointing.interval-during-backlog": "10 s",
    }
    (refusal,) = settings_of(config)["setting_refusals"]
    assert refusal["message"].startswith("Checkpoint interval during backlog must be larger")
    paused = {**config, "execution.checkpointing.interval-during-backlog": "0 s"}
    assert settings_of(paused)["setting_refusals"] == []
    (refusal,) = settings_of({**paused, "pipeline.sources.pause-until-first-checkpoint": "true"})[
        "setting_refusals"
    ]
    assert refusal["message"].startswith("Pausing sources until first checkpoint is incompatible")


@pytest.mark.parametrize(
    ("memory", "weight"),
    [
        ("200m", 200), ("100 kb", 1), ("1 gb", 1024), ("2147483647m", 2**31 - 1), ("2147483648m", 1),
        ("4294967296m", 1), ("4294967301m", 5), ("6442450944m", 1), ("22147483648m", 672_647_168),
        ("8796093022207 m", 1),
    ],
)  # fmt: skip
def test_the_memory_of_sorted_inputs_is_a_weight_of_32_bits(memory: str, weight: int):
    """As the fractions of an operator with weight 100 beside it tell."""
    config = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.memory": memory}
    assert settings_of(config)["sorted_inputs_memory_mebibytes"] == weight


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("٨", 8),
        ("+१२", 12),
        ("-\uff13", -3),
        ("\U0001d7d6", None),
        ("²", None),
        ("8 ", None),
        ("", None),
        ("2147483648", None),
    ],
)
def test_integers_are_in_digits_of_any_script_that_fit_a_char(text, number):
    if number is not None:
        assert parse_int(text) == parse_long(text) == number
        return
    with pytest.raises(ValueError, match="is not a 32-bit integer"):
        parse_int(text)


@pytest.mark.parametrize(("parse", "text"), [(parse_duration, "٨ s"), (parse_memory_size, "٨ mb")])
def test_durations_and_sizes_are_in_ascii_digits(parse, text):
    with pytest.raises(ValueError, match="start"):
        parse(text)


OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
CLICKS = "77a0f10083e1c8fb475a05f15f6a1a61"


TWO_VERTICES = [
    {"id": 1, "kind": "source", "name": "Clicks", "uid": "clicks"},
    {"id": 2, "kind": "partition", "partitioner": "hash", "inputs": [1]},
    {"id": 3, "kind": "sink", "name": "Out", "uid": "out", "inputs": [2]},
]


def executed_ids():
    plan = penstock.plan({"name": "a", "transformations": TWO_VERTICES})
    return {row["name"]: row["vertex_id"] for row in plan.tables["job_vertices"].to_pylist()}


def executed(own, **named):
    """Parallelism and max parallelism of both vertices, the slots, or the refusal."""
    job = {"name": "a", "parallelism": 2, "config": own, "transformations": TWO_VERTICES}
    plan = penstock.plan(job, **named)
    if plan.rejected:
        (row,) = plan.tables["rejected"].to_pylist()
        return row["error_stage"], row["error"], row["message"]
    vertices = plan.tables["execution_job_vertices"].to_pylist()
    slots = sum(row["slots"] for row in plan.tables["required_slots"].to_pylist())
    return [(row["parallelism"], row["max_parallelism"]) for row in vertices], slots


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("8", ([(2, 128), (8, 128)], 8)),
        ("٨", ([(2, 128), (8, 128)], 8)),
        ("200", ([(2, 128), (200, 512)], 200)),
        ("-1", ([(2, 128), (1, 128)], 2)),
        (
            "0",
            ("job_graph", "IllegalArgumentException", "The parallelism must be at least one, or -1 (unset)."),
        ),
        ("x", ("job_graph", "NumberFormatException", 'For input string: "x"')),
        (
            "40000",
            ("execution_graph", "IllegalArgumentException", "Operator parallelism not within bounds: 40000"),
        ),
    ],
)
def test_overrides_of_parallelism_are_those_of_a_minicluster(override, expected):
    """Flink's MiniCluster ran a job of two vertices with each of these, handed over as a JobGraph."""
    assert executed({OVERRIDES: f"{CLICKS}:{override}"}) == expected
    assert executed({f"{OVERRIDES}.{CLICKS}": override}) == expected


def test_a_jobs_overrides_are_over_the_clusters_entry_by_entry():
    out = executed_ids()["Sink: Out"]
    cluster = {OVERRIDES: f"{CLICKS}:3,{out}:5"}
    assert executed({OVERRIDES: f"{CLICKS}:8"}, config=cluster)[1] == 8
    assert executed({OVERRIDES: f"{CLICKS}:8"}, config=cluster)[0] == [(5, 128), (8, 128)]
    assert executed({}, config=cluster)[0] == [(5, 128), (3, 128)]
    assert executed({OVERRIDES: "8"})[2] == f"Could not parse value '8' for key '{OVERRIDES}'."
    twice = f"{CLICKS}:8,{CLICKS}:9"
    assert executed({OVERRIDES: twice})[2] == f"Could not parse value '{twice}' for key '{OVERRIDES}'."
