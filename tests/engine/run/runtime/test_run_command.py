"""`penstock run`, `info` and `runs`, as a user starts them."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from penstock.engine.commands.main import main
from tests.as_command import as_command

SCRIPT = """
import sys
from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from helpers import doubled

def main():
    import zipped  # in its own process only; the function below imports it in a worker
    env = StreamExecutionEnvironment.get_execution_environment()

    class More(MapFunction):
        def open(self, context):
            self.seen = context.get_metrics_group().counter("seen")

        def map(self, value):
            from pyflink.common import Row
            import zipped
            self.seen.inc()
            return Row(doubled(value) + zipped.ONE)

    env.from_collection([1, 2, 3], Types.LONG()).map(More(), Types.ROW([Types.LONG()])).print()
    env.execute(sys.argv[1])

if __name__ == "__main__":
    main()
"""

SLOW = """
import time
from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

def slow(value):
    open("WHERE/started", "a").close()
    time.sleep(0.5)
    return str(value)

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NumberSequenceSource(1, 500), WatermarkStrategy.no_watermarks(), "n", Types.LONG())
sink = FileSink.for_row_format("WHERE/out", Encoder.simple_string_encoder()).build()
numbers.map(slow, Types.STRING()).sink_to(sink)
env.execute("slow")
"""


QUICKLY = "--conf=spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"


def penstock(*arguments, cwd):
    command = [sys.executable, "-P", "-m", "penstock.engine.commands.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, check=False)


@pytest.fixture
def here(monkeypatch, capsys):
    """Call a command in this process: gives exit code, standard output and standard error."""

    def call(*arguments, cwd):
        capsys.readouterr()
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        with as_command(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("scripts")
    (path / "script.py").write_text(SCRIPT)
    (path / "helpers.py").write_text("def doubled(value):\n    return 2 * value\n")
    with zipfile.ZipFile(path / "more.zip", "w") as archive:
        archive.writestr("zipped.py", "ONE = 1\n")
    return path


@pytest.mark.spark
def test_a_script_runs_with_what_it_imports_and_is_recorded(folder, here):
    done = penstock(
        *("run", QUICKLY, "-p", 2, "--py-files", "more.zip", "--to", "store", "script.py", "named"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(line.partition("> ")[2] for line in done.stdout.splitlines())
    assert lines == ["+I[3]", "+I[5]", "+I[7]"]
    assert "job 'named': version 1 of store" in done.stderr

    _, listed, _ = here("runs", "store", cwd=folder)
    heading, row = (line.split("\t") for line in listed.splitlines())
    run = dict(zip(heading, row, strict=True))
    assert (run["job"], run["mode"], run["state"], run["subtasks"]) == ("named", "STREAMING", "FINISHED", "3")
    attempts = here("runs", "store", "--run", run["run"], cwd=folder)[1].splitlines()
    assert len(attempts) == 4
    assert all("\tFINISHED\t" in line for line in attempts[1:])
    (heading, *rows) = (line.split("\t") for line in attempts)
    measured = [row[heading.index("measured")] for row in rows]
    seen = [int(text.removeprefix("Map, Map: seen ")) for text in measured if text]
    assert (sum(seen), len(seen)) == (3, 2), "of both subtasks of the map"
    assert "Map -> Sink: Print to Std. Out" in here("show", "store", "--topology", "named", cwd=folder)[1]


@pytest.mark.slow
def test_info_plans_and_runs_nothing(folder):
    (folder / "zipped.py").write_text("ONE = 1\n")
    done = penstock("info", "-p", 3, "--json", "script.py", "planned", cwd=folder)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["name"] == "planned"
    parallelism = {vertex["name"]: vertex["parallelism"] for vertex in plan["job_graph"]["vertices"]}
    assert parallelism == {"Source: Collection Source": 1, "Map, Map -> Sink: Print to Std. Out": 3}
    visualized = json.loads(penstock("info", "--execution-plan", "script.py", "x", cwd=folder).stdout)
    assert [node["pact"] for node in visualized["nodes"]] == ["Data Source", "Operator", "Data Sink"]
    (folder / "zipped.py").unlink()


def test_mistakes_are_told_without_a_traceback(folder, here):
    (folder / "wrong.py").write_text(
        "import pyflink.datastream\nfrom pyflink.table import TableEnvironment\n"
    )
    for arguments, code, said in (
        (["run", "nosuch.py"], 3, "nosuch.py: no such script"),
        (["run", "wrong.py"], 1, "line 2, in <module>: from pyflink.table import TableEnvironment"),
        (["info", "helpers.py"], 3, "ended without executing a job"),
        (["run", "-D", "oops", "script.py"], 2, "-D oops: must be KEY=VALUE"),
        (["runs", "nostore"], 3, "nostore does not exist"),
    ):
        ended, _, complaint = here(*arguments, cwd=folder)
        assert ended == code, complaint
        assert said in complaint
        assert "Traceback" not in complaint


@pytest.mark.spark
def test_ctrl_c_cancels_and_commits_nothing(folder, tmp_path):
    (folder / "slow.py").write_text(SLOW.replace("WHERE", str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "penstock.engine.commands.main", "run", QUICKLY, "-p", "1", "slow.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while not (tmp_path / "started").exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "job 'slow' was cancelled; nothing of it is committed" in err
    assert not [name for _, _, files in os.walk(tmp_path / "out") for name in files]
