"""Plans on Spark against plans made by the real Flink 2.3.0 (tests/golden), all in one planning run."""

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.planned_lines import LAYERS, PlanJson, differs, planned_lines

FILES = sorted((Path(__file__).parent / "golden").glob("*.jsonl.gz"))
NAMES = [path.name.removesuffix(".jsonl.gz") for path in FILES]


@pytest.fixture(scope="module")
def golden() -> dict[str, list[PlanJson]]:
    def lines(path: Path) -> list[PlanJson]:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return {name: lines(path) for name, path in zip(NAMES, FILES, strict=True)}


@pytest.fixture(scope="module")
def plans(spark: SparkSession, golden: dict[str, list[PlanJson]]) -> dict[str, PlanJson]:
    return planned_lines(spark, [line["topology"] for lines in golden.values() for line in lines])


@pytest.mark.parametrize("name", NAMES)
def test_plans_are_flinks(name, golden, plans):
    expected = {line["expected"]["name"]: line["expected"] for line in golden[name]}
    assert [topology for topology, plan in expected.items() if differs(plans[topology], plan)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_layer_is_there(name, golden, plans):
    """A stream graph's own layer is not repeated."""
    for line in golden[name]:
        plan = plans[line["expected"]["name"]]
        given = {"stream_graph"} & set(line["topology"])
        refused = "error" in line["expected"]
        wanted = {"error_stage", "error", "message"} if refused else set(LAYERS) - given
        assert set(plan) == {"name", *wanted}, plan["name"]


def test_golden_data_refuses_at_every_layer(golden):
    stages = [line["expected"].get("error_stage") for lines in golden.values() for line in lines]
    assert min(stages.count(stage) for stage in ("stream_graph", "job_graph", "execution_graph")) >= 10
