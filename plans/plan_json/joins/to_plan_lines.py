"""Plan JSON lines (docs/plan-json.md) from the tables of a plan."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.plan_json.joins.execution_graph_json import execution_graph_json
from plans.plan_json.joins.job_graph_json import job_graph_json
from plans.plan_json.joins.json_text import KEEP_NULLS, without_brace
from plans.plan_json.joins.slots_json import slots_json
from plans.plan_json.joins.stream_graph_json import stream_graph_json
from plans.plan_json.sections import SECTIONS

_JSON: dict[str, Callable[[Mapping[str, DataFrame]], DataFrame]] = {
    "stream_graph": stream_graph_json,
    "job_graph": job_graph_json,
    "execution_graph": execution_graph_json,
    "slots": slots_json,
}
"""Key of a section to what writes it."""


def to_plan_lines(tables: Mapping[str, DataFrame]) -> DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`.

    A planned topology has the sections whose tables are there. A refused one has name (null if it had none
    that could be read), error_stage, error and message. A line is one value, so a plan has to fit 2 GB of
    text.
    """
    topologies, rejected = tables["topologies"], tables["rejected"]
    lines = topologies.alias("t")
    texts = [without_brace(F.to_json(F.struct("t.name"), KEEP_NULLS))]
    for section in SECTIONS:
        if all(table in tables for table in section.tables):
            part = _JSON[section.key](tables).alias(section.key)
            lines = lines.join(part, F.col("t.topology_id") == F.col(f"{section.key}.topology_id"), "left")
            json = F.coalesce(f"{section.key}.json", F.lit(section.empty))
            text = F.concat(F.lit(f',"{section.key}":'), json)
            texts.append(text)
    planned = lines.select("t.name", F.concat(*texts, F.lit("}")).alias("line"))
    refusal = F.to_json(F.struct("name", "error_stage", "error", "message"), KEEP_NULLS)
    return planned.unionByName(rejected.select("name", refusal.alias("line")))
