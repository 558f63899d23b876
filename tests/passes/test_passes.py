"""Every pass by its fixture: small tables in, a table out (see fixtures.py).

The topologies of all cases are planned in one run. ../golden/passes.jsonl.gz holds the plans that Flink makes
of these topologies; tests/plans/blocks plans them in blocks.
"""

import gzip
import json
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.plans.layers import PlanOptions
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from tests.passes.derived_tables import Derived, derived_in_process
from tests.passes.fixtures import FOLDER, GIVEN, RULES, Case, Shown, read_cases, shown
from tests.passes.topologies import choices_of, for_flink, topology_of

CASES = {entry.produces: read_cases(entry.produces) for entry in RULES}
GOLDEN = Path(__file__).parents[1] / "golden" / "passes.jsonl.gz"


def weights() -> dict[str, list[int]]:
    """Topology to the weights of three operators in one slot sharing group."""
    rng = Random(3)
    rows = [[rng.choice((1, 3, 7, 128, rng.randint(1, 2**31 - 1))) for _ in range(3)] for _ in range(150)]
    return {f"weights {i}": row for i, row in enumerate([*rows, [2**31 - 1] * 3, [1, 2**31 - 1, 1]])}


def weighing(name: str, weights: list[int]) -> dict[str, Any]:
    """The topology."""
    rows = [
        {"id": i, "kind": "one_input" if i > 1 else "source", "inputs": [i - 1] if i > 1 else [], "name": "n"}
        | {"managed_memory": {"OPERATOR": weight}}
        for i, weight in enumerate(weights, 1)
    ]
    return {"name": name, "transformations": rows}


TOPOLOGIES = [
    *(topology_of(case) for cases in CASES.values() for case in cases),
    *(weighing(*row) for row in weights().items()),
]


@pytest.fixture(scope="module")
def columnar() -> Derived:
    return derived_in_process(TOPOLOGIES)


@pytest.mark.parametrize("produces", CASES)
def test_tables_are_those_of_the_fixture(produces, columnar):
    differ = [
        f"{case.name}\n{found.text()}"
        for case in CASES[produces]
        for expected in case.tables
        if expected.table not in GIVEN
        if sorted((found := found_table(columnar, case, expected)).rows) != sorted(expected.rows)
    ]
    assert not differ, "\n\n".join(differ)


def found_table(derived: Derived, case: Case, expected: Shown) -> Shown:
    """What was derived, in the columns that the fixture shows."""
    rows = derived(expected.table, choices_of(case), case.name)
    cells = [tuple(shown(named(column, row[column])) for column in expected.columns) for row in rows]
    return Shown(expected.table, expected.columns, tuple(sorted(cells)))


def named(column: str, value: Any) -> Any:
    """A set of reasons as the list of their names; any other value as it is."""
    return (
        [reason.value for reason in NotChainableReason if value & reason.bit]
        if column == "reasons"
        else value
    )


def test_every_fixture_is_of_a_pass():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(CASES)


def test_no_two_cases_of_a_pass_have_one_name():
    for cases in CASES.values():
        assert len({case.title for case in cases}) == len(cases) > 0


def test_flink_has_planned_the_topologies_of_all_cases():
    """The golden tests compare its plans with those of Penstock."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        planned = {
            topology["name"]: topology for topology in (json.loads(line)["topology"] for line in lines)
        }
    assert planned == {topology["name"]: topology for topology in for_flink()}


def test_fractions_of_any_weights_are_cut_off_after_16_decimals(columnar):

    def cut_off(weight, total):
        return float((Decimal(weight) / Decimal(total)).quantize(Decimal(10) ** -16, ROUND_DOWN))

    for name, of_operators in weights().items():
        total = (sum(of_operators) + 2**31) % 2**32 - 2**31
        found = {
            row["node"]: row["managed_memory_fraction"]
            for row in columnar("chained_operators", PlanOptions(), name)
        }
        assert found == {
            node: {"OPERATOR": cut_off(weight, total)} for node, weight in enumerate(of_operators, 1)
        }
