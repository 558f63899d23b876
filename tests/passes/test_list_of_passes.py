"""The one list of passes, and its implementations."""

import inspect
from functools import partial

import pytest

from penstock.plans.layers import LAYER_TABLES, PlanOptions
from penstock.plans.passes import GIVEN, PASSES, produced_by_layer
from penstock.plans.planners.run_passes import OF_ITS_OWN, implementations, inputs_of, steps
from penstock.plans.vocabulary import Layer, SlotSharingStrategy
from tests.passes.fixtures import read_cases, shown_instead
from tests.passes.topologies import choices_of

DERIVED = implementations(PlanOptions())


def test_every_pass_is_implemented_and_no_other():
    assert sorted(DERIVED) == sorted(entry.produces for entry in PASSES)


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_an_implementation_reads_what_the_list_says(entry):
    assert set(inputs_of(DERIVED[entry.produces])) - set(OF_ITS_OWN) <= set(entry.reads)


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_the_first_case_of_a_fixture_shows_what_the_pass_reads(entry):
    """docs/passes.md shows it as the example."""
    assert shown_instead(entry.reads) & {shown.table for shown in read_cases(entry.produces)[0].tables}


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.produces)
def test_a_docstring_names_its_fixture(entry):
    derive = DERIVED[entry.produces]
    documented = derive.func if isinstance(derive, partial) else derive
    assert f"tests/passes/fixtures/{entry.produces}.txt" in (inspect.getdoc(documented) or "")


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_a_strategy_has_a_case(strategy):
    choices = PlanOptions(slot_sharing_strategy=strategy)
    assert any(choices_of(case) == choices for case in read_cases("task_slots"))


def test_a_pass_reads_what_is_there_by_then():
    known = set(GIVEN)
    for entry in PASSES:
        assert set(entry.reads) <= known, entry.produces
        known.add(entry.produces)


def test_every_table_of_a_layer_is_produced_in_it():
    produced = produced_by_layer()
    for layer in list(Layer)[1:]:
        assert set(LAYER_TABLES[layer].values()) <= set(produced[layer])


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_every_strategy_is_known(strategy):
    assert "task_slots" in dict(steps(PlanOptions(slot_sharing_strategy=strategy)))
