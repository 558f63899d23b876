"""Restart strategies: how often a failed job starts again, and what it leaves."""

import pytest

from penstock.engine.pyflink.common import Configuration, Encoder, Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.job_monitor import JobResult, summaries
from penstock.engine.run.runtime.run_context import current_context
from penstock.engine.run.runtime.run_on_spark import restart_backoff
from penstock.operators.connectors.file_sink import FileSink
from penstock.plans.errors import JobCompileError, JobExecutionError
from penstock.plans.vocabulary import ExecutionState


def delays(config, failures):
    backoff = restart_backoff({f"restart-strategy{key}": value for key, value in config.items()})
    return [backoff(at) for at in failures]


@pytest.mark.parametrize(
    ("config", "failures", "expected"),
    [
        ({}, [0], [None]),
        ({".type": "none"}, [0], [None]),
        ({"": "off"}, [0], [None]),
        ({".type": "fixed-delay"}, [0, 1], [1000, None]),
        ({".type": "FixedDelay", ".fixed-delay.attempts": "2", ".fixed-delay.delay": "3 s"}, [0] * 3,
         [3000, 3000, None]),
        ({".type": "fixed-delay", ".fixed-delay.attempts": "0"}, [0], [None]),
        # Flink's queue holds one failure more than may be: the restart is refused while all are recent
        ({".type": "failure-rate"}, [0, 60_000], [1000, None]),
        ({".type": "failure-rate"}, [0, 60_001, 60_002], [1000, 1000, None]),
        ({".type": "failurerate", ".failure-rate.max-failures-per-interval": "2",
          ".failure-rate.delay": "0 ms"}, [0, 1, 60_000], [0, 0, None]),
        ({".type": "exponential-delay", ".exponential-delay.jitter-factor": "0"}, [0, 1_000, 2_500, 9_000],
         [1000, 1500, 2250, 3375]),
        ({".type": "exponential-delay", ".exponential-delay.jitter-factor": "0",
          ".exponential-delay.max-backoff": "1200 ms"}, [0, 1, 2], [1000, 1200, 1200]),
        ({".type": "exponential-delay", ".exponential-delay.jitter-factor": "0",
          ".exponential-delay.attempts-before-reset-backoff": "1",
          ".exponential-delay.reset-backoff-threshold": "10 s"}, [0, 11_000, 11_001], [1000, 1000, None]),
    ],
)  # fmt: skip
def test_delays_are_flinks(config, failures, expected):
    assert delays(config, failures) == expected


def test_exponential_delays_never_leave_their_bounds():
    found = delays({".type": "exponential-delay"}, range(0, 3_000))
    assert all(1000 <= one <= 60_000 for one in found)
    assert found[-1] >= 54_000


@pytest.mark.parametrize(
    "config",
    [
        {".type": "often"},
        {".type": "fixed-delay", ".fixed-delay.attempts": "-1"},
        {".type": "fixed-delay", ".fixed-delay.delay": "soon"},
        {".type": "failure-rate", ".failure-rate.max-failures-per-interval": "0"},
        {".type": "exponential-delay", ".exponential-delay.jitter-factor": "2"},
        {".type": "exponential-delay", ".exponential-delay.backoff-multiplier": "1"},
        {".type": "exponential-delay", ".exponential-delay.initial-backoff": "2 min"},
    ],
)
def test_wrong_values_are_errors_before_anything_runs(config):
    with pytest.raises(JobCompileError, match="option restart-strategy"):
        delays(config, [0])


def failing_job(tmp_path, failures, **config):
    """Fails as often as that, each time after it has written rows."""
    options = Configuration()
    for key, value in config.items():
        options.set_string("restart-strategy." + key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.set_parallelism(2)
    marks = str(tmp_path / "marks")

    def fail_at_last(value):
        import pathlib

        if value == 19:
            made = len(list(pathlib.Path(marks).glob("*")))
            if made < failures:
                pathlib.Path(marks, str(made)).touch()
                raise ValueError(f"failure {made}")
        return str(value)

    (tmp_path / "marks").mkdir()
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    numbers = env.from_collection(list(range(20)), Types.LONG()).rebalance()
    numbers.map(fail_at_last, Types.STRING()).sink_to(sink)
    return env


def rows(tmp_path):
    files = (tmp_path / "out").rglob("*") if (tmp_path / "out").exists() else ()
    return sorted(int(line) for one in files if one.is_file() for line in one.read_text().split())


@pytest.fixture
def results():
    found: list[JobResult] = []
    current_context().run_listeners.append(found.append)
    yield found
    current_context().run_listeners.remove(found.append)


def test_a_job_starts_again_and_writes_each_row_once(spark, tmp_path, results, capfd):
    failing_job(
        tmp_path, 1, type="fixed-delay", fixed_delay__attempts="1", fixed_delay__delay="1 ms"
    ).execute("again")
    assert rows(tmp_path) == list(range(20))
    (result,) = results
    last = [one for one in result.attempts if one.vertex != min(a.vertex for a in result.attempts)]
    by_subtask: dict[int, list[tuple[int, ExecutionState]]] = {}
    for one in last:
        by_subtask.setdefault(one.subtask, []).append((one.attempt_number, one.state))
    assert len(by_subtask) == 2
    for attempts in by_subtask.values():
        assert [number for number, _ in attempts] == list(range(len(attempts)))
        assert attempts[-1][1] is ExecutionState.FINISHED
    assert ExecutionState.FAILED in [state for some in by_subtask.values() for _, state in some]
    assert "starts again in 0.001 s (restart 1)" in capfd.readouterr().err
    assert all(found["subtasks"] for _, found in summaries(result))


def test_a_job_fails_when_its_restarts_are_used_up(spark, tmp_path, results):
    env = failing_job(tmp_path, 9, type="fixed-delay", fixed_delay__attempts="1", fixed_delay__delay="1 ms")
    with pytest.raises(JobExecutionError, match="failure 1"):
        env.execute("again")
    assert rows(tmp_path) == []
    failed = [one for one in results[0].attempts if one.state is ExecutionState.FAILED]
    assert len({one.attempt_number for one in failed}) == 2


def test_a_run_that_waits_to_start_again_can_be_cancelled(spark, tmp_path, results):
    env = failing_job(tmp_path, 9, type="fixed-delay", fixed_delay__delay="1 h")
    client = env.execute_async("again")
    while client.get_job_status().result().name != "RESTARTING":
        pass
    client.cancel().result()
    with pytest.raises(Exception, match="was cancelled"):
        client.get_job_execution_result().result()
    assert (results[0].state, rows(tmp_path)) == ("CANCELED", [])
