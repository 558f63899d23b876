"""Readers on Spark take the options of jobs as those in this process do."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_as_read import read_topologies as read_in_process
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.vocabulary import Layer
from tests.plans.topology.builders import simple

DEFAULTS = JobDefaults(3, {"pipeline.max-parallelism": "64", "pipeline.operator-chaining.enabled": "false"})
GIVEN = [simple("bare"), simple("own", parallelism=2, config={"pipeline.max-parallelism": "9"})]
COLUMNS = ("name", "parallelism", "config", "fingerprint")


def given(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """The same topologies in every form that Spark reads."""
    lines, document, table = folder / "a.jsonl", folder / "b.json", folder / "tables"
    lines.write_text("".join(json.dumps(one) + "\n" for one in GIVEN))
    document.write_text(json.dumps(GIVEN, indent=1))
    rows = spark.createDataFrame(
        [(one["name"], one.get("parallelism"), one.get("config")) for one in GIVEN],
        "name string, parallelism int, config map<string, string>",
    )
    ids = {row["name"]: row["id"] for row in rows.selectExpr("name", "xxhash64(name) AS id").collect()}
    transformations = spark.createDataFrame(
        [
            (ids[one["name"]], row["id"], row["kind"], row["name"], row.get("inputs", []))
            for one in GIVEN
            for row in one["transformations"]
        ],
        "topology_id long, id int, kind string, name string, inputs array<int>",
    )
    rows.write.parquet(str(table / "topologies"))
    transformations.write.parquet(str(table / "transformations"))
    return {
        "lines": str(lines),
        "document": str(document),
        "objects": GIVEN,
        "tables": (rows, transformations),
        "folder": str(table),
    }


@pytest.fixture(scope="module")
def forms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return given(spark, tmp_path_factory.mktemp("forms"))


def rows_of(topologies: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in COLUMNS) for row in topologies.select(*COLUMNS).collect())


@pytest.mark.parametrize("form", ["lines", "document", "objects", "tables", "folder"])
def test_defaults_of_jobs(spark, forms, form):
    options = PlanOptions(Layer.TOPOLOGY, job_defaults=DEFAULTS)
    planned = plan_on_spark(forms[form], options, spark=spark)
    expected = read_in_process(GIVEN, job_defaults=DEFAULTS)
    named = expected.topologies.select(COLUMNS).sort("name").to_arrow().to_pylist()
    assert rows_of(planned.tables["topologies"]) == [
        (row["name"], row["parallelism"], dict(row["config"]), row["fingerprint"]) for row in named
    ]
    limits = sorted(row["max_parallelism"] for row in planned.tables["job_settings"].collect())
    planned.release()
    assert limits == sorted(expected.job_settings["max_parallelism"].to_list()) == [9, 64]
