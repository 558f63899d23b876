"""Keys, connected streams and orders within a key, against what the real PyFlink 2.3.0 printed.

Lines are compared in their order where a key's order is the subject, and sorted otherwise: between keys
Flink's order is that of its heap of timers.
"""

import contextlib
import io
import json
from pathlib import Path

import pytest

from penstock.engine.library.run_script import run_script
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext
from tests.engine.run.runtime.run_in_process import run_jobs_in_process
from tests.pyflink.test_cases import scripts

KEYS = Path(__file__).parent / "keys"
SCRIPTS = scripts(KEYS)
RUNS = [json.loads(line) for line in (KEYS / "expected.jsonl").read_text(encoding="utf-8").splitlines()]

#: Runs that differ on purpose, and why.
DIFFERENT = {
    "keyed_and_plain_map-BATCH-1": "PyFlink's BATCH mode fails where the second stream alone is keyed",
    "sessions_in_batch-BATCH-1": "PyFlink 2.3 loses sessions of a key whose windows merge in BATCH mode",
}
#: Cases whose records are all of one key, or come in one order: their lines are compared as they come.
IN_ORDER = {
    "keyed_stream_collected_in_order",
    "reduced_in_order",
    "sessions_and_a_running_state",
    "sessions_that_grow",
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['case']}-{run['mode']}-{run['parallelism']}")
def test_prints_what_pyflink_prints(tmp_path, monkeypatch, run):
    if f"{run['case']}-{run['mode']}-{run['parallelism']}" in DIFFERENT:
        return
    run_jobs_in_process(monkeypatch)
    path = tmp_path / f"{run['case']}.py"
    path.write_text(SCRIPTS[run["case"]], encoding="utf-8")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        run_script(
            str(path), [run["mode"], str(run["parallelism"])], RunContext(settings=EnvironmentSettings())
        )
    printed = output.getvalue().replace("OrderedDict({'a': 1})", "OrderedDict([('a', 1)])")  # since 3.12
    lines = [line for line in printed.splitlines() if line.startswith("RESULT")]
    if run["case"] in IN_ORDER:
        assert lines == run["results"]
    else:
        assert sorted(lines) == sorted(run["results"])
