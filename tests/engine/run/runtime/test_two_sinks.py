"""Jobs with several sinks on Spark: committed as one, and not run again where their commit is finished."""

import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.commits.commit_run import CommitError
from penstock.operators.common.row import Row
from penstock.operators.connectors import commit_delta
from penstock.operators.connectors.sink import SinkWriter
from tests.engine.run.commits.test_commits import Listed
from tests.engine.run.commits.two_sinks import ALL, BOTH, NOTHING, hidden, sinks_of, visible
from tests.engine.run.runtime.run_in_process import NOT_FUSED


def registered(folder):
    """An environment with a job of both sinks, and the stream they read."""
    env = StreamExecutionEnvironment.get_execution_environment(NOT_FUSED).set_parallelism(2)
    numbers = env.from_collection(ALL, Types.LONG())
    files, table = sinks_of(folder)
    numbers.sink_to(files.sink)
    numbers.map(Row, table.type_info).sink_to(table.sink)
    return env, numbers


def test_a_failed_commit_shows_nothing_and_is_finished_by_the_next_run(spark, tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        raise OSError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(commit_delta, "_commit", fail)
        env, _ = registered(tmp_path)
        with pytest.raises(CommitError, match="the store is away"):
            env.execute("two")
    assert visible(tmp_path) == NOTHING
    env, numbers = registered(tmp_path)
    env.execute("two")
    assert "job 'two' is not run again" in capsys.readouterr().err
    assert visible(tmp_path) == BOTH
    assert hidden(tmp_path) == []

    with monkeypatch.context() as patched:
        patched.setattr(commit_delta, "_commit", fail)
        env, numbers = registered(tmp_path)
        with pytest.raises(CommitError):
            list(numbers.execute_and_collect("two"))
    env, numbers = registered(tmp_path)
    assert (
        sorted(numbers.execute_and_collect("two")) == ALL
    )  # run for its records; its sinks are published once
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2
    assert hidden(tmp_path) == []


def test_a_job_that_fails_leaves_nothing(spark, tmp_path):
    env, numbers = registered(tmp_path)
    numbers.map(lambda n: 1 // (n - 50), Types.LONG()).print()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        env.execute("fails")
    assert visible(tmp_path) == NOTHING
    assert hidden(tmp_path) == []
    assert not list((tmp_path / "table").glob("*.parquet"))


class Counting(Listed):
    def writer(self, context):
        return Nothing()


class Nothing(SinkWriter):
    def write(self, values, timestamps):
        pass

    def finish(self):
        return []

    def abort(self):
        pass


def test_a_sink_of_the_users_own_is_committed_first(spark, tmp_path):
    for failures in ([1], []):
        env, numbers = registered(tmp_path)
        numbers.sink_to(Counting(str(tmp_path / "listed"), failures))
        if failures:
            with pytest.raises(CommitError, match="answer lost"):
                env.execute("own")
            assert visible(tmp_path) == NOTHING
        else:
            env.execute("own")
    assert visible(tmp_path) == BOTH
    assert len((tmp_path / "listed").read_text().splitlines()) == 1
