"""Prepare the topologies of every case in the form that planners read, and measure cases in turn."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.measure.bench.planners import get_planner
from penstock.engine.measure.bench.run_child import (
    USED,
    RequestFunction,
    StartFunction,
    python_command,
    python_environment,
)
from penstock.engine.planning.plan_beside_flink import Digests, find_differences
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.fleet import Spec
from penstock.plans.importing.bounds import bounded_file, bounded_text
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.unpacked_texts import texts_of_file
from penstock.plans.vocabulary import VIRTUAL_KINDS, Layer

# The suites of a benchmark, each at several sizes.


FLEET_OPERATORS = 12
"""Average number of operators of a topology in a fleet."""

NEXMARK = Path(__file__).parent / "nexmark.jsonl.gz"
"""121 stream graphs of Nexmark's SQL queries, as made by Flink's planner (from tests/golden)."""


WORKLOADS = Path(__file__).parent / "workloads.jsonl"
"""Published benchmarks as topologies with costs (see docs/workloads.md)."""


CAPTURED = Path(__file__).parent / "captured.jsonl.gz"
"""Jobs of Flink's and PyFlink's own examples, as written by `penstock capture` (see docs/benchmarks.md)."""


class Suite(NamedTuple):
    """Topologies of a generated `shape`, or the lines of `file`, `repeated` up to a size or not."""

    name: str
    about: str
    shape: str = ""
    share_of_uids: float | None = None
    file: Path | None = None
    repeated: bool = False


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("fleet", "random topologies of 12 operators on average, up to the size", "random"),
        Suite("layered", "one topology in layers, a quarter of the edges partitioned", "layered"),
        Suite("uids", "layered, with a uid on every operator", "layered", share_of_uids=1.0),
        Suite("chain", "one topology that is one chain", "chain"),
        Suite("diamond", "one topology that repeatedly forks into two branches and joins them", "diamond"),
        Suite("wide", "one topology of sources with large fan-out and unions into sinks", "wide"),
        Suite(
            "sql", "stream graphs of Nexmark's queries, repeated up to the size", file=NEXMARK, repeated=True
        ),
        Suite(
            "captured",
            "stream graphs of Flink's and PyFlink's examples, repeated up to the size",
            file=CAPTURED,
            repeated=True,
        ),
        Suite("workloads", "published benchmarks, with costs; each topology once", file=WORKLOADS),
    )
}


class Case(NamedTuple):
    """One suite at one size; `size` is 0 for a user's file, whose size is fixed."""

    suite: Suite
    size: int


def find_suite(name: str) -> Suite:
    """Return the suite of that name, or the file of that path. Raises ConfigurationError for neither."""
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if path.is_file():
        return Suite(path.name.removesuffix(".gz").removesuffix(".jsonl"), f"topologies of {path}", file=path)
    raise ConfigurationError(
        f"--suite must be a suite or a file, got {name}", f"suites are {', '.join(SUITES)}"
    )


def each_once(suites: list[Suite]) -> list[Suite]:
    """Return suites in order. Raises ConfigurationError if two different ones have the same name."""
    named: dict[str, Suite] = {}
    for suite in suites:
        other = named.setdefault(suite.name, suite)
        if other != suite:
            raise ConfigurationError(
                f"--suite: names must be unique, got two suites {suite.name}: {other.about}, and "
                f"{suite.about}",
                "rename one of the files",
            )
    return list(named.values())


def cases_of(suites: list[Suite], sizes: list[int]) -> list[Case]:
    """Return every suite at every size, sizes ascending; a user's file once."""
    return [
        Case(suite, size)
        for suite in suites
        for size in ([0] if suite.file and not suite.repeated else sorted(set(sizes)))
    ]


def spec_of(case: Case) -> Spec:
    """Return the specification of a generated case."""
    if case.suite.shape == "random":
        topologies = max(1, round(case.size / FLEET_OPERATORS))
        return Spec(operators=FLEET_OPERATORS, topologies=topologies, seed=1, parallelism=4)
    return Spec(operators=case.size, seed=1, parallelism=4, share_of_uids=case.suite.share_of_uids)


VERSION = 1
"""Incremented whenever inputs of the same case change."""


class Input(NamedTuple):
    """Places of the topologies of a case. Generated cases have `tables`, and `lines` if needed."""

    tables: Path | None
    lines: Path | None
    topologies: int
    operators: int

    def path(self, reads_lines: bool) -> Path:
        """Return tables as input of a planner, or lines if it reads only lines or the case has no tables."""
        prepared = self.lines if reads_lines or self.tables is None else self.tables
        if prepared is None:
            raise ConfigurationError("these inputs were prepared without topology lines")
        return prepared


def prepare_inputs(
    cases: Iterable[Case],
    folder: Path,
    with_lines: bool,
    report: Callable[[str], None],
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> dict[Case, Input]:
    """Map cases to Inputs. Inputs of an earlier run in `folder` are reused; the rest is generated in one go.

    Topologies of files get `job_defaults` for settings they leave unset; generated topologies set everything.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inputs: dict[Case, Input] = {}
    wanted: dict[Case, dict[str, Any]] = {}
    for case in cases:
        if case.suite.shape:
            wanted[case] = _entry(case, folder, with_lines)
        else:
            inputs[case] = _prepare_file(case, folder, job_defaults)
    missing = [entry for entry in wanted.values() if entry["tables"] or entry["lines"]]
    if missing:
        report("prepare inputs")
        _generate(missing)
    return inputs | {case: _finished(entry["folder"]) for case, entry in wanted.items()}


def _entry(case: Case, folder: Path, with_lines: bool) -> dict[str, Any]:
    """Describe what to generate for a case, into an unfinished folder or file beside the finished one."""
    spec = asdict(spec_of(case))
    recipe = json.dumps([VERSION, case.suite.shape, spec], sort_keys=True)
    key = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    place = folder / f"{case.suite.name}-{case.size}-{key}"
    has_tables, has_lines = (place / "tables").is_dir(), (place / "lines.jsonl").is_file()
    unfinished = place / ".tables"
    return {
        "folder": str(place),
        "shape": case.suite.shape,
        "spec": spec,
        "tables": None if has_tables else str(unfinished),
        "lines": None if has_lines or not with_lines else str(place / "lines.jsonl"),
    }


def _generate(entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        Path(entry["folder"]).mkdir(exist_ok=True)
    done = subprocess.run(
        python_command("penstock.engine.measure.bench.generate_inputs"),
        env=python_environment(),
        input=json.dumps(entries),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise ConfigurationError("inputs cannot be generated:\n" + "\n".join(done.stderr.splitlines()[-8:]))
    for entry in entries:
        if entry["tables"]:
            target = Path(entry["folder"]) / "tables"
            shutil.rmtree(target, ignore_errors=True)
            Path(entry["tables"]).rename(target)


def _finished(folder: str) -> Input:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    tables, lines = Path(folder) / "tables", Path(folder) / "lines.jsonl"
    kinds = pq.read_table(tables / "transformations", columns=["kind"])["kind"]
    virtual = sum(pc.sum(pc.equal(kinds, str(kind))).as_py() or 0 for kind in VIRTUAL_KINDS)
    topologies = pq.read_table(tables / "topologies", columns=["name"]).num_rows
    return Input(tables, lines if lines.is_file() else None, topologies, len(kinds) - virtual)


def _prepare_file(case: Case, folder: Path, job_defaults: JobDefaults) -> Input:
    assert case.suite.file is not None
    if not case.suite.repeated and job_defaults == NO_DEFAULTS:
        sizes = [count_operators(_read(line)) for line in _lines(case.suite.file)]
        return Input(None, case.suite.file, len(sizes), sum(sizes))
    read = [_read(line) for line in _lines(case.suite.file)]
    topologies = [
        job_defaults.under(topology) if isinstance(topology, dict) else topology for topology in read
    ]
    if not case.suite.repeated and topologies == read:
        return Input(None, case.suite.file, len(topologies), sum(map(count_operators, topologies)))
    path = folder / f"{case.suite.name}-{case.size}.jsonl"
    if case.suite.repeated:
        topologies = list(repeat_topologies(topologies, case.size))
    lines = (
        topology if isinstance(topology, str) else json.dumps(topology) + "\n" for topology in topologies
    )
    path.write_text("".join(lines), "utf-8", "surrogateescape")
    return Input(None, path, len(topologies), sum(map(count_operators, topologies)))


def _read(line: str) -> Any:
    """Parse the topology in a line; a line that is not JSON stays text, for planners to reject."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = line
    return line if isinstance(value, str) else value


def _lines(path: Path) -> Iterator[str]:
    with bounded_file(str(path)):
        text = bounded_text(texts_of_file(str(path)))
    lines = io.BytesIO(text)
    yield from (line.decode("utf-8", "surrogateescape") for line in lines if line.strip())


def repeat_topologies(topologies: list[Any], operators: int) -> Iterator[Any]:
    """Yield the topologies in turn, with a new name in each round, up to that many operators.

    Lines that are not topologies are repeated too, and count as one operator.
    """
    operators_so_far = 0
    for turn in count():
        for topology in topologies:
            if operators_so_far >= operators:
                return
            operators_so_far += max(1, count_operators(topology))
            named = isinstance(topology, dict) and isinstance(topology.get("name"), str)
            yield {**topology, "name": f"{topology['name']}/{turn}"} if named else topology


def count_operators(topology: Any) -> int:
    """Count the physical operators of a topology line; 0 if it is not a topology."""
    match topology:
        case {"stream_graph": {"nodes": [*nodes]}}:
            return len(nodes)
        case {"transformations": [*rows]}:
            return sum(isinstance(row, dict) and str(row.get("kind")) not in VIRTUAL_KINDS for row in rows)
    return 0


# Measurements of a benchmark in turn, and the comparison of plans.


Measure = Callable[[str, Path], dict[str, Any]]
"""Takes planner and input; returns the answer of run_child.request_of_child."""


class Turn(NamedTuple):
    """One measurement to take."""

    repetition: int
    case: Case
    planner: str


def turns(cases: Sequence[Case], planners: Sequence[str], repeat: int) -> Iterator[Turn]:
    """Yield all measurements, repetition outermost, planners side by side, each round starting with another.

    Other load on the machine and after-effects of a planner (caches, heat) then affect all planners alike.
    """
    for repetition in range(repeat):
        first = repetition % max(1, len(planners))
        for case in cases:
            for planner in (*planners[first:], *planners[:first]):
                yield Turn(repetition, case, planner)


def measure_with(
    request: RequestFunction, todo: Sequence[Turn], until: Layer, repeat_in_process: int
) -> Measure:
    """Make a Measure that requests measurements from planners' processes, for all of `todo`.

    If the first turn of a reused process is repeated, it is the cold plan alone: the others are warm, and on
    Spark each plan takes long.
    """
    started: set[str] = set()
    turns_of = Counter((turn.planner, turn.case) for turn in todo)
    first = {turn.planner: turn.case for turn in reversed(todo)}
    repeated = {planner for planner, case in first.items() if turns_of[planner, case] > 1}

    def measure(planner: str, path: Path) -> dict[str, Any]:
        cold_only = planner in repeated - started and get_planner(planner).reused
        started.add(planner)
        warm = 0 if cold_only else repeat_in_process
        return request(planner, _options(path, until, "--repeat-in-process", str(warm)))

    return measure


def _options(path: Path, until: Layer, *others: str) -> tuple[str, ...]:
    return "--input", str(path), "--until", until, *others


def run_benchmarks(
    todo: Sequence[Turn],
    inputs: Mapping[Case, Input],
    measure: Measure,
    report: Callable[[str], None],
    has_time_for: Callable[[Turn], bool] = lambda turn: True,
) -> Iterator[tuple[Turn, dict[str, Any]]]:
    """Yield each turn with its record, unless there is no time for it.

    After a planner timed out, its turns at that size and above are Skipped.
    """
    timed_out: dict[tuple[str, str], int] = {}
    for turn in todo:
        if not has_time_for(turn):
            continue
        suite, prepared = turn.case.suite.name, inputs[turn.case]
        report(f"{suite} {prepared.operators:,} {turn.planner}")
        record = {
            "suite": suite,
            "size": turn.case.size,
            "operators": prepared.operators,
            "topologies": prepared.topologies,
            "planner": turn.planner,
            "repetition": turn.repetition,
            "load_average": round(os.getloadavg()[0], 2),
        }
        limit = timed_out.get((suite, turn.planner))
        if limit is not None and prepared.operators >= limit:
            failure = {"error": "Skipped", "message": f"timed out at {limit:,} operators"}
            unknown: dict[str, Any] = {
                "start_up_seconds": None,
                "cold": None,
                "warm": [],
                "peak_memory_bytes": None,
                **dict.fromkeys(USED),
            }
            yield turn, {**record, **unknown, "failure": failure}
            continue
        answer = measure(turn.planner, prepared.path(get_planner(turn.planner).reads_lines))
        if answer["failure"] and answer["failure"]["error"] == "Timeout":
            timed_out[suite, turn.planner] = prepared.operators
        yield turn, {**record, **answer}


def compare_plans(
    inputs: Mapping[Case, Input],
    planners: Sequence[str],
    until: Layer,
    begin: StartFunction,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Compare plans. Returns one entry per suite: smallest size, `pairs` (see find_differences), `failures`.

    Nothing is timed here, so planners run in parallel.
    """
    smallest: dict[str, Case] = {}
    for case, prepared in inputs.items():
        name = case.suite.name
        if name not in smallest or prepared.operators < inputs[smallest[name]].operators:
            smallest[name] = case
    entries = []
    for suite, case in smallest.items():
        report(f"{suite} compare {', '.join(planners)}")
        digests: dict[str, Digests] = {}
        failures = {}
        with short_lived_folder("bench") as folder:
            begun = {}
            for planner in planners:
                path = inputs[case].path(get_planner(planner).reads_lines)
                file = str(Path(folder) / f"{planner}.json")
                begun[planner] = begin(planner, _options(path, until, "--digests", file))
            # A reused planner without a process gets its request on waiting; the others are running by then.
            for planner in sorted(begun, key=lambda name: not get_planner(name).reused):
                done = begun[planner]()
                if done["failure"]:
                    failures[planner] = done["failure"]
                else:
                    digests[planner] = orjson.loads((Path(folder) / f"{planner}.json").read_bytes())
        digests = {planner: digests[planner] for planner in planners if planner in digests}
        entry = {"suite": suite, "operators": inputs[case].operators, "pairs": find_differences(digests)}
        entries.append({**entry, "failures": failures})
    return entries


# Selection of the measurements that fit into a time budget.


FIRST_GUESS_SECONDS = 3.0
"""Guess of the time of a planner's first turn."""

FIRST_GUESS_SECONDS_ON_SPARK = 10.0
"""The same for a planner that starts a session first."""

GROWS = 1.6
"""Guess of the growth of a turn's time from one size to the next, where start-up dominates."""


class TimeBudget:
    """Decides by the duration of earlier turns whether another fits, and predicts the remaining time.

    A class, because it learns from each turn. `after_seconds` are reserved for comparing plans after the
    turns, which takes about as long as the first turns of all planners.
    """

    def __init__(self, seconds: float | None, turns: Sequence[Turn], compares: bool) -> None:
        self._seconds, self._compares = seconds, compares
        self._began = time.monotonic()
        self._took: dict[tuple[str, str, int], float] = {}
        sizes: dict[str, set[int]] = {}
        for turn in turns:
            sizes.setdefault(turn.case.suite.name, set()).add(turn.case.size)
        self._smaller = {
            (suite, large): small
            for suite, suite_sizes in sizes.items()
            for small, large in pairwise(sorted(suite_sizes))
        }

    def took(self, turn: Turn, seconds: float) -> None:
        """Record the duration of a finished turn."""
        key = (turn.planner, turn.case.suite.name, turn.case.size)
        self._took[key] = max(seconds, self._took.get(key, 0.0))

    def has_time_for(self, turn: Turn) -> bool:
        """Return whether this turn, and the work after all turns, will probably fit."""
        if self._seconds is None:
            return True
        return self.spent() + self._expected(turn) + self._after() <= self._seconds

    def left(self, todo: Sequence[Turn]) -> float:
        """Predict the seconds of the turns in `todo` and the work after them."""
        needed = sum(map(self._expected, todo)) + self._after()
        return needed if self._seconds is None else min(needed, max(0.0, self._seconds - self.spent()))

    def spent(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def _expected(self, turn: Turn) -> float:
        suite, size = turn.case.suite.name, turn.case.size
        factor = 1.0
        while (turn.planner, suite, size) not in self._took:
            if (suite, size) not in self._smaller:
                others = [took for (planner, *_), took in self._took.items() if planner == turn.planner]
                return factor * (min(others) if others else _first_guess(turn.planner))
            size, factor = self._smaller[suite, size], factor * GROWS
        return factor * self._took[turn.planner, suite, size]

    def _after(self) -> float:
        if not self._compares:
            return 0.0
        slowest: dict[str, float] = {}
        for (_, suite, _), took in self._took.items():
            slowest[suite] = max(took, slowest.get(suite, 0.0))
        return sum(slowest.values()) / 2


def _first_guess(planner: str) -> float:
    return FIRST_GUESS_SECONDS_ON_SPARK if get_planner(planner).reused else FIRST_GUESS_SECONDS


def seconds_left(seconds: float) -> str:
    """Format a remaining time for people, such as `about 1 min 20 s left`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest:02} s left" if minutes else f"about {rest} s left"
