"""The suites of topologies that a benchmark plans, each at several sizes."""

from pathlib import Path
from typing import NamedTuple

from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.fleet import Spec

FLEET_OPERATORS = 12
"""Operators of a fleet's topology, on average."""

NEXMARK = Path(__file__).parent / "nexmark.jsonl.gz"
"""121 stream graphs of Nexmark's SQL queries as Flink's planner made them (those of tests/golden)."""


WORKLOADS = Path(__file__).parent / "workloads.jsonl"
"""Published benchmarks as topologies with costs (see docs/workloads.md)."""


CAPTURED = Path(__file__).parent / "captured.jsonl.gz"
"""Jobs of Flink's and PyFlink's own examples as `penstock capture` wrote them (see docs/benchmarks.md)."""


class Suite(NamedTuple):
    """Topologies of one kind: a generated `shape`, or the lines of `file`, `repeated` up to a size or not."""

    name: str
    about: str
    shape: str = ""
    share_of_uids: float | None = None
    file: Path | None = None
    repeated: bool = False


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("fleet", "random topologies of 12 operators on average, as many as the size takes", "random"),
        Suite("layered", "one topology in layers, a quarter of the edges partitioned", "layered"),
        Suite("uids", "layered, with a uid on every operator", "layered", share_of_uids=1.0),
        Suite("chain", "one topology, all of it one chain", "chain"),
        Suite(
            "diamond", "one topology that forks into two branches and joins them, again and again", "diamond"
        ),
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
    """One suite at one size; `size` is 0 for a file of the user's, which has the size it has."""

    suite: Suite
    size: int


def find_suite(name: str) -> Suite:
    """The suite of that name, or the file of that path. Raises ConfigurationError for neither."""
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if path.is_file():
        return Suite(path.name.removesuffix(".gz").removesuffix(".jsonl"), f"topologies of {path}", file=path)
    raise ConfigurationError(
        f"--suite {name}: found neither a suite nor a file of that name", f"suites are {', '.join(SUITES)}"
    )


def each_once(suites: list[Suite]) -> list[Suite]:
    """Suites in their order. Raises ConfigurationError if two different ones have the same name."""
    named: dict[str, Suite] = {}
    for suite in suites:
        other = named.setdefault(suite.name, suite)
        if other != suite:
            raise ConfigurationError(
                f"--suite: found two suites named {suite.name}: {other.about}, and {suite.about}",
                "rename one of the files",
            )
    return list(named.values())


def cases_of(suites: list[Suite], sizes: list[int]) -> list[Case]:
    """Every suite at every size, sizes ascending; a file of the user's once."""
    return [
        Case(suite, size)
        for suite in suites
        for size in ([0] if suite.file and not suite.repeated else sorted(set(sizes)))
    ]


def spec_of(case: Case) -> Spec:
    """How a generated case is generated."""
    if case.suite.shape == "random":
        topologies = max(1, round(case.size / FLEET_OPERATORS))
        return Spec(operators=FLEET_OPERATORS, topologies=topologies, seed=1, parallelism=4)
    return Spec(operators=case.size, seed=1, parallelism=4, share_of_uids=case.suite.share_of_uids)
