"""Writes what the real PyFlink submits for scripts of many cases, in one JVM.

    cd tests/engine/run/lowering
    python capture_graphs.py api_calls.txt graphs.jsonl.gz --python /path/to/environment-with-flink/bin/python

A script takes the arguments CASE MODE PARALLELISM process|thread on|off and defines its cases by functions
below a line `@case`. OUT gets a line for each case and `--run`, or all of RUNS: `run` (the arguments),
`refused` (whether PyFlink raised) and `graphs` (name and `stream_graph` of each job). Ids count from the
first transformation of a case, as in a JVM of its own.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNS = (
    "STREAMING,2,process,on",
    "BATCH,2,process,on",
    "STREAMING,2,thread,on",
    "AUTOMATIC,1,process,off",
)

NAME = re.compile("#[0-9]+$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", required=True, help="a Python that has apache-flink")
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    parser.add_argument(
        "--run", action="append", help="MODE,PARALLELISM,process|thread,on|off; may be repeated"
    )
    given = parser.parse_args()
    cases = re.findall(r"^@case\ndef (\w+)", given.script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    runs = [
        [case, *run.split(",")]
        for run in given.run or RUNS
        for case in cases
        if case in (given.case or cases)
    ]
    lines = captured(given.script, runs, given.python)
    with gzip.open(given.out, "wt", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def captured(script: Path, runs: list[list[str]], python: str) -> list[dict[str, Any]]:
    from penstock.engine.flink.capture.run_capture import run_capture

    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        lines = Path(folder) / "jobs"
        request.write_text(json.dumps([str(script), runs, str(lines)]), encoding="utf-8")
        packages = subprocess.run(
            [python, "-c", "import pyflink, os; print(os.path.dirname(os.path.dirname(pyflink.__file__)))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        environment = {
            **os.environ,
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
            "PYTHONPATH": packages,  # thread mode needs it
        }
        result = run_capture(
            [python, __file__, "--in-pyflink", str(request)], environment, Path(folder), name="case"
        )
        if result.problem is not None:
            raise SystemExit(f"{result.problem}\n{result.log_tail}")
        found: list[dict[str, Any]] = json.loads(request.read_text(encoding="utf-8"))
        return found


def run_all(request: Path) -> None:
    """What runs in the real PyFlink."""
    from pyflink.java_gateway import get_gateway

    script, runs, jobs = json.loads(request.read_text(encoding="utf-8"))
    code = compile(Path(script).read_text(encoding="utf-8"), script, "exec")
    restart_ids = restart_of_ids(get_gateway().jvm)
    done = []
    name_apart(jobs)
    for run in runs:
        restart_ids(0)
        sys.argv = [script, *run]
        before = len(whole_lines(jobs))
        refused = None
        try:
            exec(code, {"__name__": "__main__"})
        except Exception as error:
            refused = str(error)
        graphs = [
            [NAME.sub("", job["name"]), job["stream_graph"]]
            for job in map(json.loads, whole_lines(jobs)[before:])
        ]
        done.append({"run": run, "refused": refused, "graphs": graphs})
    request.write_text(json.dumps(done), encoding="utf-8")


def name_apart(jobs: str) -> None:
    """Let every job have a number after its name: the agent gives taken names other ones."""
    from pyflink.datastream import DataStream, StreamExecutionEnvironment

    def numbered(method):
        def call(self, *given, **named):
            made = method(self, *given, **named)
            made.setJobName(f"{made.getJobName()}#{len(whole_lines(jobs))}")
            return made

        return call

    def numbered_collect(self, name=None, limit=None):
        return collect(self, f"{name or 'DataStream Collect'}#{len(whole_lines(jobs))}", limit)

    environment = StreamExecutionEnvironment
    environment._generate_stream_graph = numbered(environment._generate_stream_graph)
    collect = DataStream.execute_and_collect
    DataStream.execute_and_collect = numbered_collect


def restart_of_ids(jvm):
    """A function that sets Flink's counter of transformations."""
    java = jvm.java.lang
    counter = java.Class.forName("org.apache.flink.api.dag.Transformation").getDeclaredField("ID_COUNTER")
    counter.setAccessible(True)
    handles = java.invoke.MethodHandles
    kind = java.Class.forName("java.util.concurrent.atomic.AtomicInteger")
    takes_integer = java.invoke.MethodType.methodType(java.Void.TYPE, java.Integer.TYPE)
    set_value = handles.publicLookup().findVirtual(kind, "set", takes_integer)
    set_counter = handles.collectArguments(set_value, 0, handles.publicLookup().unreflectGetter(counter))
    return lambda value: set_counter.invokeWithArguments([value])


def whole_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


if __name__ == "__main__":
    run_all(Path(sys.argv[2])) if sys.argv[1:2] == ["--in-pyflink"] else main()
