"""The one list of passes, and the implementations that both planners have of it."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.output.reference_pages import example_of
from plans.choices import Choices
from plans.columnar import passes as columnar
from plans.joins import passes as joins
from plans.layers import LAYER_TABLES
from plans.passes import GIVEN, PASSES, produced_by_layer
from plans.vocabulary import Layer, SlotSharingStrategy
from tests.passes.fixtures import read_cases, shown_instead
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


def assert_shows_its_fixture(entry, derive, case):
    assert example_of(derive) == (
        f"{case.title} (tests/passes/fixtures/{entry.produces}.txt).",
        case.example(entry.reads),
    )


@pytest.mark.parametrize("planner", DERIVED)
@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_the_docstring_shows_the_first_case_of_the_fixture(planner, entry):
    """What the pass reads and what it produces, to the letter."""
    case = read_cases(entry.produces)[0]
    assert shown_instead(entry.reads) & {shown.table for shown in case.tables}
    assert_shows_its_fixture(entry, DERIVED[planner][entry.produces], case)


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_the_docstring_of_a_strategy_shows_its_first_case(strategy):
    choices = Choices(slot_sharing_strategy=strategy)
    (entry,) = (entry for entry in PASSES if entry.produces == "task_slots")
    case = next(case for case in read_cases(entry.produces) if choices_of(case) == choices)
    assert_shows_its_fixture(entry, columnar.implementations(choices)[entry.produces], case)
    assert_shows_its_fixture(entry, joins.implementations(choices)[entry.produces].derive, case)


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
