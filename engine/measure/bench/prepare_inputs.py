"""The topologies of every case as planners read them, made once and kept."""

import hashlib
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from penstock.engine.measure.bench.run_child import python_command, python_environment
from penstock.engine.measure.bench.suites import Case, spec_of
from penstock.plans.errors import ConfigurationError
from penstock.plans.importing.bounds import bounded_file, bounded_text
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.unpacked_texts import texts_of_file
from penstock.plans.vocabulary import VIRTUAL_KINDS

VERSION = 1
"""Raised whenever inputs of the same case change."""


class Input(NamedTuple):
    """Where the topologies of a case are; generated cases have `tables`, and `lines` if asked for."""

    tables: Path | None
    lines: Path | None
    topologies: int
    operators: int

    def path(self, reads_lines: bool) -> Path:
        """What a planner reads: lines only, or tables where there are any."""
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
    """Case to Input; what `folder` holds from an earlier run is taken, Spark makes the rest at once.

    Topologies of files get `job_defaults` under what they set themselves; generated ones say all themselves.
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
    """What is to be generated for a case, into an unfinished folder or file beside the finished one."""
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
    """The topology in a line; a line that is not JSON stays text, for planners to reject."""
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
    """The topologies in turn, each time under another name, until they have that many operators.

    What is no topology comes in its turn, too, and counts as one operator.
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
    """Physical operators of a topology line; 0 where it is not one."""
    match topology:
        case {"stream_graph": {"nodes": [*nodes]}}:
            return len(nodes)
        case {"transformations": [*rows]}:
            return sum(isinstance(row, dict) and str(row.get("kind")) not in VIRTUAL_KINDS for row in rows)
    return 0
