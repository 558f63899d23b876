"""`penstock bench --budget`: which measurements fit, and planners of the user's beside Penstock's."""

import json

import polars as pl
import pytest

from penstock import decides
from penstock.engine.measure.bench import run_planners
from penstock.engine.measure.bench.planners import budget_seconds, chosen_planners, get_planner
from penstock.engine.measure.bench.prepare_inputs import SUITES, Case, TimeBudget, seconds_left, turns
from penstock.engine.measure.bench.times import NotPlannedError
from penstock.engine.planning.plan_by_custom_planners import named_custom_planners
from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import Layer

SECONDS = {"process": 1.0, "blocks": 14.0}


def measured(budget: float | None, sizes: tuple[int, ...] = (1_000, 10_000, 100_000)):
    """The turns that fit, and the seconds that they take, by a clock of the test's."""
    now = [0.0]
    patch = pytest.MonkeyPatch()
    patch.setattr("penstock.engine.measure.bench.prepare_inputs.time.monotonic", lambda: now[0])
    every = list(turns([Case(SUITES["fleet"], size) for size in sizes], list(SECONDS), 3))
    every.sort(key=lambda turn: (turn.repetition, turn.case.size))
    found, limit = [], TimeBudget(budget, every, compares=True)
    for turn in every:
        if limit.has_time_for(turn):
            now[0] += SECONDS[turn.planner]
            limit.took(turn, SECONDS[turn.planner])
            found.append(turn)
    patch.undo()
    return found, now[0]


def test_what_fits_is_measured_and_the_rest_left_out():
    everything, all_seconds = measured(None)
    assert len(everything) == 18
    for budget in (20.0, 60.0, 120.0):
        found, spent = measured(budget)
        assert spent <= budget
        assert len(found) < len(everything)
        assert {(turn.planner, turn.case.size) for turn in found} >= {("process", 1_000), ("blocks", 1_000)}
    assert len(measured(120.0)[0]) > len(measured(60.0)[0])
    assert measured(10 * all_seconds)[0] == everything


def test_times_are_said_and_read():
    assert [seconds_left(one) for one in (4.4, 80)] == ["about 4 s left", "about 1 min 20 s left"]
    assert [budget_seconds(one) for one in ("90s", "2m", "1500ms")] == [90, 120, 1.5]
    for wrong in ("soon", "0s", "-3s"):
        with pytest.raises(ConfigurationError, match="--budget"):
            budget_seconds(wrong)


def test_planners_of_ones_own_are_measured_beside_others(tmp_path, monkeypatch):
    own = "penstock.engine.examples.chain_equal_costs:chain"
    assert chosen_planners(["process", own]) == (["process", own], {})
    assert get_planner(own).includes.startswith("A custom planner in one Python process")
    assert chosen_planners(["joins", "columnar-on-spark", "columnar", "process", "auto"])[0] == [
        "blocks",
        "workers",
        "process",
    ]
    with pytest.raises(ConfigurationError, match=r"must be one of .*process.*, or a custom planner"):
        chosen_planners(["columna"])
    with pytest.raises(ConfigurationError, match="ModuleNotFoundError"):
        chosen_planners(["nowhere:policy"])


def test_a_planner_of_ones_own_that_plans_only_some_topologies_has_no_time(tmp_path, monkeypatch):
    @decides("chaining")
    def raises_for_b(topologies, stream_edges):
        if "b" in topologies["name"]:
            raise ValueError("not b")
        return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(False)).head(0)

    monkeypatch.setattr(
        run_planners,
        "named_custom_planners",
        lambda name, *rest: named_custom_planners(raises_for_b, *rest),
    )
    steps = [{"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}]
    file = tmp_path / "jobs.jsonl"
    for names, said in (("ac", None), ("abc", r"1 of 3 topologies, first b: .*ValueError: not b")):
        file.write_text("".join(json.dumps({"name": n, "transformations": steps}) + "\n" for n in names))
        plans = run_planners.PlannerRun("own:planner").plans
        if said is None:
            assert next(plans(file, Layer.SLOTS, 0)).layers
        else:
            with pytest.raises(NotPlannedError, match=said) as caught:
                next(plans(file, Layer.SLOTS, 0))
            assert caught.value.error == "PlannerRaised"
