"""Rewrites expected.jsonl: what the real PyFlink prints for the cases of this folder. Not a test.

usage: TZ=UTC python ask_pyflink.py [CASE...] > expected.jsonl, with a Python that has apache-flink 2.3.0. All
cases run in one process, one after the other: a JVM for each would take most of an hour.
"""

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent


def main() -> None:
    prologue, epilogue = (HERE / "prologue.txt").read_text(), (HERE / "epilogue.txt").read_text()
    for part in re.split(r"^### ", (HERE / "cases.txt").read_text(), flags=re.MULTILINE)[1:]:
        head, body = part.split("\n", 1)
        name, _, runs = head.partition("|")
        if len(sys.argv) > 1 and name.strip() not in sys.argv[1:]:
            continue
        for run in runs.split(","):
            mode, parallelism = run.split()
            print(
                json.dumps(asked(name.strip(), mode, int(parallelism), prologue + body + epilogue)),
                flush=True,
            )


def asked(name: str, mode: str, parallelism: int, script: str) -> dict[str, object]:
    given, sys.argv = sys.argv, [name, mode, str(parallelism)]
    main_module = sys.modules["__main__"] = ModuleType("__main__")
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(script, name, "exec"), vars(main_module))
    finally:
        sys.argv = given
    results = [line for line in output.getvalue().splitlines() if line.startswith("RESULT")]
    return {"case": name, "mode": mode, "parallelism": parallelism, "results": results}


if __name__ == "__main__":
    main()
