"""Compare jobs over a stream with the real PyFlink: rows as multisets, refusals by class.

    python -m benchmarks.stream_beside_flink --pyflink PYTHON [--scripts 1,5-7] [--seed N] [--mode process]

PYTHON is the interpreter of an environment with apache-flink 2.3.0. Each job of `beside_flink/jobs.py` runs
over six files: on PyFlink from a watched folder, where a file comes when the one before is committed; on
Penstock from Spark's file stream, one file a batch, through `penstock.foreach_batch`. After half of the
files a job goes on unchanged, changed (an operator more or less, another parameter), with another
parallelism or max parallelism, or with other uids. On PyFlink the changed jobs start from a savepoint.

The comparison leaves out results that Flink itself leaves open, or that differ by design (docs/streams.md,
"Semantics beside Flink's"):

- Within a file, records are in the order of event time, and no two have the same one. Late records are late
  by the watermark of an earlier file. When watermarks come within a file is open in both engines, so timers
  that read state run over files that alternate with a file that advances the watermark.
- The first file after a change has no late records: Flink begins without a watermark, Penstock with the
  last one.
- Processing-time timers have times in the past or in a far future.
- On Flink, only keyed operators have several subtasks; the source, its watermarks and the sinks have uids.

A table shows each script and variant: rows that are equal, a job that both refuse, or state that PyFlink
loses (LOST_ON_PYFLINK). The exit code is 1 if results differ otherwise.
"""

import argparse
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from penstock.engine.pyflink_names import install
from penstock.plans.errors import PenstockError

HERE = Path(__file__).parent / "beside_flink"
FILES, RECORDS, USERS = 6, 10, ("ann", "bob", "cat", "dan", "eva")
SPLIT = 3
VARIANTS = ("same", "changed", "parallelism", "uid")
SCHEMA = "user string, amount long, at long"
_CHANGES = ("before", "without uids", "beside added", "beside gone", "beside dropped", "parameter")
_PARAMETERS = {
    "lists",
    "TTL of an hour",
    "timers that read state",
    "tumbling, process",
    "sliding, process",
    "sessions, process",
    "windows of windows",
}
#: Scripts that PyFlink runs in process mode. Thread mode, which is faster, fails at the first checkpoint of
#: merging windows and of state of all windows (VoidNamespace cannot be cast to TimeWindow).
IN_PROCESS_MODE = {
    "many types",
    "sessions, process",
    "sessions, reduce",
    "sessions, dynamic gap",
    "sessions, lateness, late side",
    "window and global state",
    "custom trigger of sessions",
    "count windows",
}
#: Sinks of scripts whose operators lose their state on PyFlink when they are restored: `KeyedStream.reduce`,
#: and `sum` and the like, give their state a random name in each start.
LOST_ON_PYFLINK = {
    "reduce": {"out"},
    "sum, max_by, min": {"sum", "max", "min"},
    "side outputs": {"large"},
}
_RESTORED = ("changed", "parallelism")
Script = dict[str, Any]


def main() -> None:
    """Run both sides, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink", required=True, metavar="PYTHON")
    parser.add_argument("--scripts", help="numbers of scripts, or 3-7; default: all")
    parser.add_argument("--seed", type=int, default=62)
    parser.add_argument("--mode", choices=("thread", "process"), help="PyFlink's execution mode")
    parser.add_argument("--keep", metavar="FOLDER", help="keep files and results here")
    chosen = parser.parse_args()
    install()
    shapes = runpy.run_path(str(HERE / "jobs.py"))  # its functions are pickled by value
    scripts = all_scripts(shapes, chosen.seed)
    scripts = [script for script in scripts if script["number"] in _numbers(chosen.scripts, len(scripts))]
    for script in scripts:
        script["mode"] = chosen.mode or ("process" if script["shape"] in IN_PROCESS_MODE else "thread")
    print(f"seed {chosen.seed}, {len(scripts)} scripts", flush=True)
    place = Path(chosen.keep or tempfile.mkdtemp(prefix="penstock-beside-flink-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        pyflink = start_pyflink(scripts, place, chosen.pyflink)
        ours = run_penstock(scripts, place / "penstock", shapes)
        theirs = read_pyflink(pyflink, place)
        (place / "results.json").write_text(json.dumps({"pyflink": theirs, "penstock": ours}))
    finally:
        if not chosen.keep:
            shutil.rmtree(place, ignore_errors=True)
    sys.exit(int(print_table(scripts, theirs, ours)))


def _numbers(chosen: str | None, most: int) -> set[int]:
    found: set[int] = set()
    for part in (chosen or f"1-{most}").split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def all_scripts(shapes: Mapping[str, Any], seed: int) -> list[Script]:
    """Return a script for each shape: files, the job of the first half, and the variants of the second."""
    scripts = []
    for at, (shape, (_, kind)) in enumerate(shapes["SHAPES"].items()):
        draw = random.Random(f"{seed} {shape}")
        lag, files = _files(kind, draw)
        change = _CHANGES[at % len(_CHANGES)]
        if shape in _PARAMETERS or change == "parameter":
            change = "parameter" if shape in _PARAMETERS else "before"
        first: dict[str, Any] = {"uid": None} if change == "without uids" else {}
        if change in ("beside gone", "beside dropped"):
            first = {"beside": True}
        changes: dict[str, dict[str, Any]] = {
            "before": {"before": True},
            "without uids": {"uid": None, "ahead": True},
            "beside added": {"beside": True},
            "beside gone": {},
            "beside dropped": {},
            "parameter": {"parameter": 1},
        }
        changed = changes[change]
        parallelism, other = ((2, 3), (1, 2), (2, 1), (3, 2))[at % 4]
        most = {"max_parallelism": 64} if at % 7 == 6 and shape != "windows of all" else {}
        if change == "without uids":
            parallelism, other = 2, 3  # with one subtask, the source's, other operators are chained
        elif shape == "own watermarks":
            parallelism, other, most = 1, 1, {"max_parallelism": 64}
        drop = at % 2 == 1
        now = {"parallelism": parallelism}
        scripts.append(
            {
                "number": at + 1,
                "shape": shape,
                "change": change,
                "lag": lag,
                "files": files,
                "split": SPLIT,
                "first": {"variant": {**first, **now}, "allow": False},
                "variants": {
                    "changed": {"variant": {**changed, **now}, "allow": change == "beside dropped"},
                    "parallelism": {"variant": {**first, **most, "parallelism": other}, "allow": False},
                    "uid": {"variant": {**first, **now, "uid": "other"}, "allow": drop},
                },
            }
        )
    return scripts


# Files: late records come first, and the last record of a file is the latest of all


def _files(kind: str, draw: random.Random) -> tuple[int, list[dict[str, Any]]]:
    lag = 10_000 if kind == "ticks" else 2_000
    files, latest = [], -1
    for number in range(FILES):
        rows = list(_rows(kind, number, draw))
        latest = max(latest, rows[-1][2])
        lines = [json.dumps(dict(zip(("user", "amount", "at"), row, strict=True))) for row in rows]
        text = "".join(f"{line}\n" for line in lines)
        files.append({"name": f"{number:03d}.json", "text": text, "watermark": latest - lag - 1})
    return lag, files


def _rows(kind: str, number: int, draw: random.Random) -> Iterator[tuple[str, int, int]]:
    if kind == "ticks":
        yield from _rows_between_ticks(number, draw)
        return
    start, end = number * 8_000, (number + 1) * 8_000
    if kind == "late" and number not in (0, SPLIT):
        for at in sorted(draw.sample(range(max(0, start - 20_000) + 1, start, 2), 4)):
            yield draw.choice(USERS), draw.randint(1, 9), at
    users = list(USERS) if kind == "once" else [draw.choice(USERS) for _ in range(RECORDS)]
    times = sorted(draw.sample(range(start, end - 10, 2), len(users)))
    for user, at in zip(users, times, strict=True):
        yield user, draw.randint(1, 9), at
    yield "~", 1, end - 2


def _rows_between_ticks(number: int, draw: random.Random) -> Iterator[tuple[str, int, int]]:
    minute = number // 2 * 60_000
    if number % 2:
        yield "~", 1, minute + 68_000  # later than the records of the next file, which are not late
        return
    for at in sorted(draw.sample(range(minute, minute + 8_000, 2), RECORDS)):
        yield draw.choice(USERS), draw.randint(1, 9), at
    yield "~", 1, minute + 8_001


# The two sides


def start_pyflink(scripts: Sequence[Script], place: Path, python: str) -> "subprocess.Popen[bytes]":
    """Start the process that runs all scripts on PyFlink."""
    plan = place / "plan.json"
    plan.write_text(json.dumps({"folder": str(place / "pyflink"), "scripts": scripts}))
    found = [python, "-c", "import pyflink; print(pyflink.__path__[0])"]
    package = Path(subprocess.run(found, check=True, capture_output=True, text=True).stdout.strip())
    environment = {
        **os.environ,
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",  # its workers are `python`
        "PYTHONPATH": str(package.parent),  # thread mode searches it
    }
    with (place / "pyflink.out").open("wb") as out, (place / "pyflink.err").open("wb") as errors:
        command = [python, str(HERE / "run_on_pyflink.py"), str(plan)]
        return subprocess.Popen(command, env=environment, stdout=out, stderr=errors)


def read_pyflink(process: "subprocess.Popen[bytes]", place: Path) -> dict[str, Any]:
    """Return the results of PyFlink by "number variant", when all scripts have ended."""
    if process.wait():
        print((place / "pyflink.err").read_text()[-3000:])
    results = [json.loads(line) for line in (place / "pyflink.out").read_text().splitlines()]
    return {f"{result['number']} {result['variant']}": result for result in results}


def run_penstock(scripts: Sequence[Script], place: Path, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of Penstock by "number variant"."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    results = {}
    for script in scripts:
        folder = place / str(script["number"])
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        files = script["files"]
        _add(folder / "in", files[: script["split"]], 0)
        first = _run_half(spark, script, folder, "first", script["first"], shapes)
        seconds = time.monotonic() - began
        _add(folder / "in", files[script["split"] :], script["split"])
        for name, half in {"same": script["first"], **script["variants"]}.items():
            began = time.monotonic()
            result = first
            if "rows" in first:
                for kept in ("state", "checkpoint"):
                    shutil.copytree(folder / "first" / kept, folder / name / kept)
                result = _run_half(spark, script, folder, name, half, shapes)
                if "rows" in result:
                    result["rows"] = _both(first["rows"], result["rows"])
            took = time.monotonic() - began + (seconds if name == "same" else 0)
            results[f"{script['number']} {name}"] = {**result, "seconds": took}
    spark.stop()
    return results


def _add(folder: Path, files: Sequence[Mapping[str, Any]], first: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files, first):
        (folder / file["name"]).write_text(file["text"])
        os.utime(folder / file["name"], (1_700_000_000 + number,) * 2)  # Spark reads the oldest first


def _run_half(
    spark: SparkSession,
    script: Script,
    folder: Path,
    name: str,
    half: Mapping[str, Any],
    shapes: Mapping[str, Any],
) -> dict[str, Any]:
    from penstock.common import Encoder
    from penstock.connectors import FileSink

    own = folder / name

    def build(records: Any) -> None:
        streams = shapes["build"](script["shape"], records, shapes["Variant"](**half["variant"]))
        for sink, stream in streams.items():
            files = FileSink.for_row_format(str(own / "out" / sink), Encoder.simple_string_encoder())
            stream.sink_to(files.build()).uid(f"sink {sink}")

    function = penstock.foreach_batch(
        build,
        state=own / "state",
        event_time="at",
        watermark=f"{script['lag']} milliseconds",
        parallelism=half["variant"]["parallelism"],
        allow_non_restored_state=half["allow"],
    )
    records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    query = records.writeStream.trigger(availableNow=True).foreachBatch(function)
    started = query.option("checkpointLocation", str(own / "checkpoint")).start()
    try:
        started.awaitTermination()
    except (StreamingQueryException, PenstockError) as error:
        refused = re.findall(r"\(([A-Z]\w*(?:Exception|Error))\): ([^\n]*)", str(error))
        if refused:
            return {"refused": ": ".join(refused[0])}
        return {"error": str(error)}
    finally:
        started.stop()
    return {"rows": _lines(own / "out")}


def _lines(folder: Path) -> dict[str, list[str]]:
    lines = {}
    for sink in sorted(folder.iterdir()) if folder.exists() else ():
        parts = [part for part in sink.rglob("*") if part.is_file() and not part.name.startswith((".", "_"))]
        lines[sink.name] = sorted(line for part in parts for line in part.read_text().splitlines())
    return lines


def _both(first: Mapping[str, list[str]], second: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(first.get(name, []) + second.get(name, [])) for name in {**first, **second}}


# The comparison


def compared(
    theirs: Mapping[str, Any] | None, ours: Mapping[str, Any] | None, lost: Collection[str] = ()
) -> str:
    """Return "equal", "refused", "lost by PyFlink", or how the results of the two sides differ.

    `lost` are the sinks of operators that lose their state on PyFlink.
    """
    if theirs is None or ours is None:
        return f"not run by {'PyFlink' if theirs is None else 'Penstock'}"
    for name, side in (("PyFlink", theirs), ("Penstock", ours)):
        if "error" in side:
            return f"{name} fails: {side['error'].strip().splitlines()[-1]}"
    if "refused" in theirs or "refused" in ours:
        classes = [side.get("refused", "runs") for side in (theirs, ours)]
        if classes[0].partition(":")[0] == classes[1].partition(":")[0]:
            return "refused"
        return f"PyFlink: {classes[0]}; Penstock: {classes[1]}"
    result = "equal"
    for sink in sorted({*theirs["rows"], *ours["rows"]}):
        wanted, found = Counter(theirs["rows"].get(sink, [])), Counter(ours["rows"].get(sink, []))
        missing, surplus = sorted((wanted - found).elements()), sorted((found - wanted).elements())
        if (missing or surplus) and sink in lost:
            result = "lost by PyFlink"
        elif missing or surplus:
            return (
                f"{sink}: {len(missing)} of {wanted.total()} rows missing, the first {missing[:1]}; "
                f"{len(surplus)} more, the first {surplus[:1]}"
            )
    return result


def print_table(scripts: Sequence[Script], theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Print a row for each script and each difference; return whether there is one."""
    table = Table("script", "change", *VARIANTS, "rows", "PyFlink (s)", "Penstock (s)")
    totals: Counter[str] = Counter()
    differences = []
    for script in scripts:
        cells, rows, seconds = [], 0, [0.0, 0.0]
        for variant in VARIANTS:
            key = f"{script['number']} {variant}"
            sides = theirs.get(key), ours.get(key)
            lost = LOST_ON_PYFLINK.get(script["shape"], ()) if variant in _RESTORED else ()
            result = compared(*sides, lost)
            failed = theirs.get(f"{script['number']} script")
            if sides[0] is None and failed is not None:
                result = compared(failed, sides[1])
            cell = result if result in ("equal", "refused", "lost by PyFlink") else "differs"
            cells.append(cell)
            totals[cell] += 1
            if cell == "differs":
                differences.append(f"{script['number']} {script['shape']}, {variant}: {result}")
            for at, side in enumerate(sides):
                seconds[at] += side["seconds"] if side else 0
            rows += sum(map(len, (sides[0] or {}).get("rows", {}).values()))
        label = f"{script['number']} {script['shape']}"
        table.add_row(label, script["change"], *cells, f"{rows}", *(f"{one:.1f}" for one in seconds))
    Console(width=150).print(table)
    print(", ".join(f"{number} {cell}" for cell, number in sorted(totals.items())))
    print(*differences, sep="\n")
    return bool(differences)


if __name__ == "__main__":
    main()
