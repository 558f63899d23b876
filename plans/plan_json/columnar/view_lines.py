"""Lines of one of Flink's own views of a plan: a key per planned topology, and refusals."""

import polars as pl

from plans.plan_json.columnar.join_parts import Parts, Tables, join_parts, parts_of_topologies
from plans.plan_json.columnar.json_text import json_object, quoted, values
from plans.tables.column_types import TOPOLOGY

_EMPTY = '"error":"RuntimeException","message":"JSON plan creation failed"'
"""What Flink says to a job without operators. Source: StreamGraph.getStreamingPlanAsJSON."""


def view_lines(tables: Tables, view: Parts) -> pl.DataFrame:
    """(name, line): one row per planned topology with its `view`, and one per row of `rejected`.

    In the order of `topologies` and `rejected`. Every topology with a stream node must be in `view`.
    """
    rejected = tables["rejected"]
    topologies = tables["topologies"].with_columns(pl.int_range(pl.len()).alias("place"))
    some = topologies[TOPOLOGY].is_in(tables["stream_nodes"][TOPOLOGY].unique().implode())
    named: Parts = ['{"name":', topologies.select(TOPOLOGY, quoted(pl.col("name")).alias("json")), ","]
    texts = [
        *parts_of_topologies(named, topologies),
        *parts_of_topologies(view, topologies.filter(some)),
        *parts_of_topologies([_EMPTY], topologies.filter(~some)),
        *parts_of_topologies(["}"], topologies),
    ]
    refusal = json_object(values(rejected, "name", "error", "message"), keep_nulls=True)
    places = pl.int_range(pl.len()).alias("place") + len(topologies)
    texts.append(rejected.select(places, refusal.alias("json")))
    return pl.DataFrame(
        {"name": pl.concat([topologies["name"], rejected["name"]]), "line": join_parts(texts)}
    )
