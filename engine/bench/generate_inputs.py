"""Makes generated topologies with Spark: a JSON list of what is wanted on standard input.

Each entry: `shape`, `spec` (of plans.generate.spec), `tables` and `lines` (where to put the tables and the
topology lines; null for not wanted).
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.machine.die_with_parent import die_with_parent
from engine.output.write_lines import write_lines
from engine.spark.session import get_session
from plans.generate.shapes import SHAPES
from plans.generate.spec import Spec
from plans.generate.to_topology_lines import to_topology_lines
from plans.joins.spark_schemas import conform


def main() -> None:
    """Make all that is wanted in one session."""
    die_with_parent()
    spark = get_session(app_name="penstock bench inputs")
    for entry in json.load(sys.stdin):
        _generate(spark, entry)


def _generate(spark: SparkSession, entry: dict[str, Any]) -> None:
    shape = next(shape for shape in SHAPES if shape.name == entry["shape"])
    topologies, transformations = shape.generate(spark, Spec(**entry["spec"]))
    if entry["tables"]:
        folder = Path(entry["tables"])
        conform(topologies, "topologies").write.mode("overwrite").parquet(f"{folder}/topologies")
        conform(transformations, "transformations").write.mode("overwrite").parquet(
            f"{folder}/transformations"
        )
    if entry["lines"]:
        write_lines(to_topology_lines(topologies, transformations).orderBy("name"), Path(entry["lines"]))


if __name__ == "__main__":
    main()
