"""The one list of passes, and the implementations that both planners have of it."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from plans.choices import Choices
from plans.columnar import passes as columnar
from plans.joins import passes as joins
from plans.layers import LAYER_TABLES
from plans.passes import GIVEN, PASSES, produced_by_layer
from plans.vocabulary import Layer, SlotSharingStrategy
from tests.passes.fixtures import read_cases
from tests.passes.topologies import choices_of

DERIVED: dict[str, dict[str, Callable[..., Any]]] = {
    "columnar": columnar.implementations(Choices()),
    "joins": {name: step.derive for name, step in joins.implementations(Choices()).items()},
}
OWN: dict[str, dict[str, Any]] = {"columnar": columnar.OF_ITS_OWN, "joins": joins.OF_ITS_OWN}


def parameters(derive) -> list[str]:
    function = derive.func if isinstance(derive, partial) else derive
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize("planner", DERIVED)
def test_a_planner_implements_every_pass_and_no_other(planner):
    assert sorted(DERIVED[planner]) == sorted(entry.produces for entry in PASSES)


@pytest.mark.parametrize("planner", DERIVED)
@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_an_implementation_reads_what_the_list_says(planner, entry):
    read = set(parameters(DERIVED[planner][entry.produces]))
    assert read - set(OWN[planner]) <= set(entry.reads)


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_the_first_case_of_a_fixture_shows_what_the_pass_reads(entry):
    """docs/passes.md shows it as the example."""
    assert set(entry.reads) & {shown.table for shown in read_cases(entry.produces)[0].tables}


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


def test_implementations_are_named_after_their_files():
    for planner, derived in DERIVED.items():
        for derive in derived.values():
            function = derive.func if isinstance(derive, partial) else derive
            assert f".{planner}." in function.__module__


def test_both_planners_take_the_same_file_names():
    modules = {
        planner: {
            (derive.func if isinstance(derive, partial) else derive).__module__.replace(f".{planner}.", ".")
            for derive in derived.values()
        }
        for planner, derived in DERIVED.items()
    }
    assert modules["columnar"] == modules["joins"]


def test_every_table_of_a_layer_is_produced_in_it():
    produced = produced_by_layer()
    for layer in list(Layer)[1:]:
        assert set(LAYER_TABLES[layer].values()) <= set(produced[layer])


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_both_planners_know_every_strategy(strategy):
    choices = Choices(slot_sharing_strategy=strategy)
    for planner in (columnar, joins):
        assert dict(planner.steps(choices, Layer.SLOTS))["task_slots"]
