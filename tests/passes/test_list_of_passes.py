"""The one list of passes, and its implementations."""

import inspect

import pytest

from penstock.plans.layers import LAYER_TABLES, PlanOptions
from penstock.plans.passes import PASSES, produced
from penstock.plans.planners.run_passes import steps
from penstock.plans.vocabulary import Layer, SlotSharingStrategy
from tests.passes.fixtures import RULES, read_cases, shown_instead
from tests.passes.topologies import choices_of


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.produces)
def test_the_first_case_of_a_fixture_shows_what_the_pass_reads(entry):
    """docs/passes.md shows it as the example."""
    assert shown_instead(entry.reads) & {shown.table for shown in read_cases(entry.produces)[0].tables}


@pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.produces)
def test_a_docstring_names_its_fixture(entry):
    assert f"tests/passes/fixtures/{entry.produces}.txt" in (inspect.getdoc(entry.derive) or "")


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_a_strategy_has_a_case(strategy):
    choices = PlanOptions(slot_sharing_strategy=strategy)
    assert any(choices_of(case) == choices for case in read_cases("task_slots"))


def test_a_pass_reads_what_is_there_by_then():
    known = {"topologies", "transformations", "job_settings", "given_stream_nodes", "given_stream_edges"}
    for entry in PASSES:
        assert set(entry.reads) <= known, entry.produces
        known.add(entry.produces)


def test_every_table_of_a_layer_is_produced_in_it():
    for layer in list(Layer)[1:]:
        assert set(LAYER_TABLES[layer].values()) <= set(produced()[layer])


@pytest.mark.parametrize("strategy", SlotSharingStrategy)
def test_every_strategy_is_known(strategy):
    assert "task_slots" in dict(steps(PlanOptions(slot_sharing_strategy=strategy)))
