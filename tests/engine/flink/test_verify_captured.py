"""Plans of captured jobs beside those of the Flink that made them; no JVM is needed to compare."""

import gzip
import json
import random
from pathlib import Path

import pytest

from penstock.engine.planning.plan_beside_flink import verify_captured

CAPTURED = Path(__file__).parents[2] / "golden" / "captured.jsonl.gz"


def vertices_of(plan):
    return plan.get("job_graph", {}).get("vertices", [])


@pytest.mark.parametrize(("version", "is_equal"), [("1.20.3", True), ("2.3.0", False)])
def test_only_flink_1_may_draw_the_ids_of_data_sets(version, is_equal):
    with gzip.open(CAPTURED, "rt", encoding="utf-8") as rows:
        golden = [row for row in map(json.loads, rows) if len(vertices_of(row["expected"])) > 1][:4]
    ids = random.Random(7)
    lines, plans = [], []
    for row in golden:
        topology, plan = row["topology"], row["expected"]
        config = {**topology.get("config", {}), "penstock.capture.flink-version": version}
        lines.append(json.dumps({**topology, "config": config}))
        text = json.dumps(plan["job_graph"])
        for vertex in vertices_of(plan):
            for output in vertex["outputs"]:
                text = text.replace(output["id"], f"{ids.getrandbits(128):032x}")
        plans.append({"name": plan["name"], "job_graph": json.loads(text)})
    assert [not found for found in verify_captured(lines, plans).values()] == [is_equal] * len(golden)
