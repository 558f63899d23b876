"""What a plan by joins takes, by layer, out of the event log."""

import json

import pytest

from benchmarks.cost_of_layers import Cost, costs_of_layers, layers_of_steps
from benchmarks.event_log import events, stages_of
from penstock.plans.planners.joins_passes import produced
from tests.engine.measure.bench.made_up_events import job, stage


def test_jobs_belong_to_the_layers_of_their_steps():
    of_steps = [
        *job(0, 0, 1, 0),
        *stage(0, 0, 1, [1, 1]),
        *job(1, 1, 4, 1, step="penstock: resolved_inputs"),
        *stage(1, 1, 4, [2, 2]),
        *job(2, 4, 6, 2, step="penstock: walked"),
        *stage(2, 4, 6, [2]),
        *job(3, 4, 5, 3, step="penstock: stream_graph_tables"),
        *stage(3, 4, 5, [0.25]),
        *job(4, 6, 7, 4),
        *stage(4, 6, 7, [1]),
    ]
    assert costs_of_layers(stages_of(of_steps)) == {
        "reading": Cost(2, 0, 20),
        "stream_graph": Cost(4.25, 0, 30),
        "job_graph": Cost(2, 2, 10),
        "execution_graph": Cost(0, 0, 0),
        "slots": Cost(0, 0, 0),
        "storing the rest": Cost(1, 1, 10),
    }


def test_every_step_of_the_joins_planner_has_a_layer():
    known = layers_of_steps()
    assert all(f"penstock: {step}" in known for steps in produced().values() for step in steps)


def test_a_log_may_be_a_folder(tmp_path):
    (tmp_path / "eventlog_v2_local-1").mkdir()
    with pytest.raises(FileNotFoundError, match="no event log"):
        list(events(tmp_path))
    file = tmp_path / "eventlog_v2_local-1" / "events_1_local-1"
    file.write_text(json.dumps({"Event": "Other"}) + "\n")
    assert list(events(tmp_path)) == list(events(file)) == [{"Event": "Other"}]
    (tmp_path / "eventlog_v2_local-2").mkdir()
    (tmp_path / "eventlog_v2_local-2" / "events_1_local-2").write_text("")
    with pytest.raises(ValueError, match="only one application"):
        list(events(tmp_path))
