"""Every pass by its fixture, in both planners: small tables in, a table out (see fixtures.py).

A planner plans the topologies of all fixtures in one run, so that every table, those that only it keeps
too, comes from its own steps.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from engine.planning.planning_settings import planning_settings
from plans.passes import PASSES
from tests.passes.derived_tables import Derived, derived_in_process, derived_on_spark
from tests.passes.fixtures import FOLDER, GIVEN, Case, Shown, read_cases, shown
from tests.passes.topologies import choices_of, topology_of

CASES = {entry.produces: read_cases(entry.produces) for entry in PASSES}
TOPOLOGIES = [topology_of(case) for cases in CASES.values() for case in cases]


@pytest.fixture(scope="module")
def columnar() -> Derived:
    return derived_in_process(TOPOLOGIES)


@pytest.fixture(scope="module")
def joins(spark: SparkSession) -> Iterator[Derived]:
    with planning_settings(spark, 2):
        yield derived_on_spark(spark, TOPOLOGIES)


@pytest.mark.parametrize("planner", ["columnar", "joins"])
@pytest.mark.parametrize("produces", CASES)
def test_tables_are_those_of_the_fixture(produces, planner, request):
    derived = request.getfixturevalue(planner)
    differ = [
        f"{case.name}\n{found.text()}"
        for case in CASES[produces]
        for expected in case.tables
        if expected.table not in GIVEN
        if sorted((found := found_table(derived, case, expected)).rows) != sorted(expected.rows)
    ]
    assert not differ, "\n\n".join(differ)


def found_table(derived: Derived, case: Case, expected: Shown) -> Shown:
    """What was derived, in the columns that the fixture shows."""
    rows = derived(expected.table, choices_of(case), case.name)
    cells = [tuple(shown(row[column]) for column in expected.columns) for row in rows]
    return Shown(expected.table, expected.columns, tuple(sorted(cells)))


def test_every_fixture_is_of_a_pass():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(CASES)


def test_no_two_cases_of_a_pass_have_one_name():
    for cases in CASES.values():
        assert len({case.title for case in cases}) == len(cases) > 0
