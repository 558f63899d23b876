"""The one list of passes, and the implementations that both planners have of it."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.plans.layers import LAYER_TABLES, Choices
from penstock.plans.passes import GIVEN, PASSES, produced_by_layer
from penstock.plans.planners import columnar_passes as columnar
from penstock.plans.planners import joins_passes as joins
from penstock.plans.vocabulary import Layer, SlotSharingStrategy
from tests.passes.fixtures import read_cases, shown_instead
from tests.passes.topologies import choices_of

STEPS = joins.implementations(Choices())
DERIVED: dict[str, dict[str, Callable[..., Any]]] = {
    "columnar": columnar.implementations(Choices()),
    "joins": {
        # An expanded table is made by the columnar function.
        name: step.expansion.expand if isinstance(step, joins.Expanded) else step.derive
        for name, step in STEPS.items()
    },
}
OWN: dict[str, dict[str, Any]] = {"columnar": columnar.OF_ITS_OWN, "joins": joins.OF_ITS_OWN}


def reads(planner: str, produces: str) -> list[str]:
    return list(
        columnar.inputs_of(DERIVED[planner][produces]) if planner == "columnar" else STEPS[produces].reads
    )


@pytest.mark.parametrize("planner", DERIVED)
def test_a_planner_implements_every_pass_and_no_other(planner):
    assert sorted(DERIVED[planner]) == sorted(entry.produces for entry in PASSES)


@pytest.mark.parametrize("planner", DERIVED)
@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_an_implementation_reads_what_the_list_says(planner, entry):
    read = set(reads(planner, entry.produces))
    assert read - set(OWN[planner]) <= set(entry.reads)


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_the_first_case_of_a_fixture_shows_what_the_pass_reads(entry):
    """docs/passes.md shows it as the example."""
    assert shown_instead(entry.reads) & {shown.table for shown in read_cases(entry.produces)[0].tables}


@pytest.mark.parametrize("planner", DERIVED)
@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_a_docstring_names_its_fixture(planner, entry):
    derive = DERIVED[planner][entry.produces]
    documented = derive.func if isinstance(derive, partial) else derive
    assert f"tests/passes/fixtures/{entry.produces}.txt" in (inspect.getdoc(documented) or "")


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_a_strategy_has_a_case(strategy):
    choices = Choices(slot_sharing_strategy=strategy)
    assert any(choices_of(case) == choices for case in read_cases("task_slots"))


def test_a_pass_reads_what_is_there_by_then():
    known = set(GIVEN)
    for entry in PASSES:
        assert set(entry.reads) <= known, entry.produces
        known.add(entry.produces)


def module_of(derive: Callable[..., Any]) -> str:
    return (derive.func if isinstance(derive, partial) else derive).__module__


def test_implementations_are_in_the_folder_of_their_planner():
    for name, derive in DERIVED["columnar"].items():
        assert ".columnar" in module_of(derive), name
    for name, derive in DERIVED["joins"].items():
        folder = ".columnar" if isinstance(STEPS[name], joins.Expanded) else ".joins"
        assert folder in module_of(derive), name


def test_both_planners_take_the_same_file_names():
    for name, derive in DERIVED["joins"].items():
        twin = DERIVED["columnar"][name]
        assert module_of(derive).replace(".joins", ".columnar") == module_of(twin), name


def test_every_table_of_a_layer_is_produced_in_it():
    produced = produced_by_layer()
    for layer in list(Layer)[1:]:
        assert set(LAYER_TABLES[layer].values()) <= set(produced[layer])


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_both_planners_know_every_strategy(strategy):
    choices = Choices(slot_sharing_strategy=strategy)
    for planner in (columnar, joins):
        assert dict(planner.steps(choices, Layer.SLOTS))["task_slots"]
