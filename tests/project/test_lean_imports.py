"""What planning in process leaves out: pyspark, delta and pandas."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("pyspark", "py4j", "delta", "pandas")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "work",
    [
        "plan_in_process('engine/examples/examples.jsonl')",
        "plan_in_process([{'name': 'a', 'transformations': [{'id': 1, 'kind': 'source'}]}])",
    ],
)
def test_planning_in_process(work):
    assert (
        run(
            "import sys\n"
            "from engine.planning.plan_in_process import plan_in_process\n"
            f"{work}\n"
            f"print({{name.split('.')[0] for name in sys.modules}} & set({LEFT_OUT}))"
        )
        == "set()"
    )


def test_pandas_is_used_as_ever_once_somebody_has_imported_it():
    assert (
        run(
            "from engine.planning.plan_in_process import plan_in_process\n"
            "plan_in_process('engine/examples/examples.jsonl')\n"
            "import pandas, pyarrow\n"
            "print(pyarrow.array(pandas.Series([1.0, float('nan')])).to_pylist(),"
            " pyarrow.table({'a': [1]}).to_pandas().a.tolist())"
        )
        == "[1.0, None] [1]"
    )


def test_pandas_that_is_there_already_is_used_while_planning():
    assert (
        run(
            "import pandas\n"
            "from plans.without_pandas import without_pandas\n"
            "with without_pandas():\n"
            "    import pyarrow\n"
            "    print(pyarrow.array(pandas.Series([1.0, float('nan')])).to_pylist())"
        )
        == "[1.0, None]"
    )


def test_another_thread_may_import_pandas_meanwhile():
    assert (
        run(
            "import threading\n"
            "from plans.without_pandas import without_pandas\n"
            "found = []\n"
            "def other():\n"
            "    import pandas\n"
            "    found.append(pandas.__name__)\n"
            "with without_pandas():\n"
            "    try:\n"
            "        import pandas\n"
            "    except ModuleNotFoundError:\n"
            "        found.append('left out')\n"
            "    thread = threading.Thread(target=other)\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "print(found)"
        )
        == "['left out', 'pandas']"
    )
