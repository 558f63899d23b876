"""Compares what the real PyFlink submitted for a script with what Penstock makes of the same script."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import orjson

from penstock.engine.library.what_if_of_script import jobs_of_script
from penstock.engine.planning.plan_beside_flink import first_difference, verify_captured
from penstock.engine.pyflink.datastream.environment_options import EnvironmentSettings
from penstock.engine.pyflink_names.unsupported_names import UnsupportedNameError
from penstock.engine.run.runtime.transformations import topology_of
from penstock.operators.common.no_java import NoJavaError
from penstock.plans.errors import PenstockError

#: Of nodes; known of some operators only, or in Flink only.
_TYPES = ("operator_class", "function_class", "output_type")
_DATA_SETS = ("persistent_data_set", "consumes_data_set")


class ScriptComparison(NamedTuple):
    """Where Penstock's lowering of a script says something else than PyFlink's, and what it does not run.

    `differences` has a list for each job that was compared, by name; an empty list means that all is equal.
    `not_run` is why Penstock does not run the script, or its rest: none of the other jobs was compared.
    """

    differences: dict[str, list[str]]
    not_run: str | None


def compare_with_captured(
    script: str,
    arguments: Sequence[str],
    settings: EnvironmentSettings,
    lines: Sequence[str],
    flinks: Sequence[Mapping[str, Any]],
) -> ScriptComparison:
    """Compare each captured job with what Penstock makes of the same script.

    The script runs here, too; none of its jobs does. `lines` are captured topologies in the order of
    submission, `flinks` the plan JSON that Flink made of them. The stream graphs are compared, and every
    layer that Flink gave. A script that needs what Penstock does not support, or a module that this Python
    does not have, is no difference: it is `not_run`. Any other failure is one.
    """
    failure: PenstockError | None
    try:
        jobs_found = jobs_of_script(script, arguments, settings)
        jobs, failure = jobs_found.jobs, jobs_found.failure
    except PenstockError as error:
        jobs, failure = [], error
    not_run = None if failure is None else _unsupported(failure)
    plans = {str(plan["name"]): plan for plan in flinks}
    differences: dict[str, list[str]] = {}
    for captured, job in zip_longest(map(orjson.loads, lines), jobs):
        if captured is None:
            last = list(differences)[-1]
            differences[last] = [*differences[last], f"PyFlink submits no further job, Penstock {job.name!r}"]
            continue
        name = str(captured["name"])
        if job is None:
            if not_run is None:
                why = failure.message if failure is not None else "the script executes no such job"
                differences[name] = [f"Penstock has no such job: {why}"]
            continue
        own = {**topology_of(job), "name": name}
        wanted, flink = _with_data_sets_of(own["stream_graph"], captured["stream_graph"], plans.get(name))
        of_layers = verify_captured([orjson.dumps(own).decode()], [flink]) if flink else {}
        differences[name] = [*_compare_graphs(wanted, own["stream_graph"]), *of_layers.get(name, ())]
    return ScriptComparison(differences, not_run)


def _unsupported(failure: PenstockError) -> str | None:
    """The feature that Penstock does not support; None if the script failed for another reason."""
    for error in _causes(failure):
        if isinstance(error, UnsupportedNameError | NoJavaError):
            return str(error)
        if isinstance(error, ModuleNotFoundError):
            return f"{error}, in the Python that runs Penstock"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _with_data_sets_of(
    own: Mapping[str, Any], captured: Mapping[str, Any], flink: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The captured graph with the ids of cached data sets that `own` has: Flink draws them at random."""
    pairs = zip(_data_sets(captured), _data_sets(own), strict=False)
    texts = [orjson.dumps(captured), orjson.dumps(flink or {})]
    for theirs, ours in pairs:
        texts = [text.replace(theirs.encode(), ours.encode()) for text in texts]
    graph, plan = map(orjson.loads, texts)
    return graph, plan


def _data_sets(graph: Mapping[str, Any]) -> list[str]:
    """The ids of cached data sets by what writes or reads them."""
    rows = sorted(graph["nodes"], key=lambda node: int(node["id"])) + sorted(
        graph["edges"], key=lambda edge: str(edge["edge_id"])
    )
    return [row[key] for row in rows for key in _DATA_SETS if key in row]


def _compare_graphs(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    theirs, ours = _comparable(wanted, own), _comparable(own, own)
    return [] if theirs == ours else [first_difference(theirs, ours, "/stream_graph")]


def _comparable(graph: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes and edges by id; what `own` does not know is left out."""
    known = {node["id"]: node.keys() for node in own["nodes"]}
    nodes = {}
    for node in graph["nodes"]:
        unknown = {key for key in _TYPES if key not in known.get(node["id"], _TYPES)}
        row = {key: value for key, value in node.items() if key not in unknown}
        row["slot_scope"] = sorted(row["slot_scope"])
        if row.get("description") == row["name"]:
            del row["description"]
        nodes[str(node["id"])] = row
    edges = {
        edge["edge_id"]: {key: value for key, value in edge.items() if key != "chainable"}
        for edge in graph["edges"]
    }
    settings = {**graph, "sources": sorted(graph["sources"]), "sinks": sorted(graph["sinks"])}
    return {**settings, "nodes": nodes, "edges": edges}
