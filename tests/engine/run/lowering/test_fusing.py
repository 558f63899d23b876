"""What fusing loses, why operators stay apart, and which jobs a script has."""

import pytest

from penstock.engine.library.run_script import chosen_job, jobs_of_script
from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.run_context import EnvironmentSettings
from penstock.engine.views.explain_plan import explain_fusing, lost_setting_text
from penstock.operators.connectors.source import NumberSequenceSource
from penstock.operators.functions.functions import CoMapFunction
from penstock.plans.errors import InputError
from tests.engine.run.runtime.run_in_process import collected

SCRIPT = """\
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
s = env.from_collection([1, 2], type_info=Types.INT()).map(lambda v: v, Types.INT()).name("first").uid("a")
s = s.filter(bool).uid("b").map(lambda v: v, Types.INT()).set_parallelism(3)
s.print()
env.execute("one")
results = list(s.execute_and_collect("two"))
env.from_collection(results[:1] or [0]).map(str).print()
env.execute("three")
raise ValueError("results are missing" if not results else "")
"""


@pytest.fixture
def found(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return jobs_of_script(str(path), [], EnvironmentSettings())


def test_every_job_of_a_script_is_there(found):
    assert [job.name for job in found.jobs] == ["one", "two", "three"]
    assert "results are missing" in found.failure.message
    assert chosen_job(found, None, "s").name == "one"
    assert chosen_job(found, "2", "s").name == chosen_job(found, "two", "s").name == "two"
    with pytest.raises(InputError, match="no job 'four'"):
        chosen_job(found, "four", "s")


def test_a_uid_within_a_fused_operator_is_lost(found):
    (lost,) = found.jobs[0].lowered.lost_settings
    assert (lost.setting, lost.value, lost.name, lost.fused_into) == ("uid", "b", "Filter", "first, Filter")
    assert lost.line is not None
    assert lost.line.endswith("script.py:6")
    assert "uid 'b' (" in lost_setting_text(lost)


def test_reasons_against_fusing_are_told(found):
    explained = explain_fusing(found.jobs[0].lowered)
    assert [one["operators"] for one in explained["fused"]] == [["first", "Filter"]]
    assert explained["boundaries_saved"] == 1
    (apart,) = explained["not_fused"]
    assert (apart["source"]["name"], apart["target"]["name"]) == ("first, Filter", "Map")
    assert apart["reasons"] == ["parallelism 2 and 3"]


WHERE = {"one": 0, "two": 10, "three": 10}


def test_functions_that_pyflink_runs_in_two_operators_of_a_chain_give_each_record_once_in_each():
    class Both(CoMapFunction):
        def map1(self, value):
            return f"one {value}"

        def map2(self, value):
            return f"two {value}"

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_source(
        NumberSequenceSource(0, 2), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    added = numbers.flat_map(lambda n: [n], Types.LONG()).map(lambda n: n + 10, Types.LONG())
    merged = numbers.connect(added).map(Both(), Types.STRING())
    shown = added.map(lambda n: f"three {n}", Types.STRING())
    found = collected(shown.union(merged.map(lambda text: text, Types.STRING())))
    expected = [f"{where} {n + first}" for where, first in WHERE.items() for n in range(3)]
    assert sorted(found) == sorted(expected)
