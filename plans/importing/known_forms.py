"""Which form an object is in that is no topology as docs/topology-files.md describes it."""

import os
from collections.abc import Mapping
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.execution_plan import from_execution_plan, is_execution_plan
from penstock.plans.importing.flink_plan import from_flink_plan, is_flink_plan
from penstock.plans.importing.given_graph import AS_GIVEN, ImportOptions
from penstock.plans.importing.imported import Imported, also_ignored, ignored_keys
from penstock.plans.importing.job_details import from_job_details, is_job_details
from penstock.plans.importing.node_link import from_node_link, is_node_link
from penstock.plans.importing.plan_json import from_plan_json, is_plan_json, is_refusal
from penstock.plans.importing.wfformat import from_wfformat, is_wfformat
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.unpacked_texts import CODECS
from penstock.plans.topology.validate_topology import LINE
from penstock.plans.vocabulary import TopologyForm


def as_topology(
    found: Mapping[str, Any], file: str | None, place: int, options: ImportOptions = AS_GIVEN
) -> Imported:
    """`found` as a topology: itself where it is one or in no form that is known, else what it becomes.

    Forms: Flink's plan of a job, with details of the job or without, and its execution plan, each as Flink
    gives it or as export writes it, plan JSON, and WfFormat, which is read with `options`. A document without
    a name takes that of its file, with its `place` (from 0) after the first.
    """
    if TopologyForm.TRANSFORMATIONS in found:
        return dict(found)
    if is_plan_json(found):
        return from_plan_json(found)
    if TopologyForm.STREAM_GRAPH in found:
        return dict(found)
    given = found.get("name")
    if is_job_details(found):
        return from_job_details(found, _name(given or found["plan"].get("name"), file, place))
    beside: set[str] = set()
    for key in ("flink_plan", "plan", "execution_plan"):
        inner = found.get(key)
        if type(inner) is dict and (is_flink_plan(inner) or is_execution_plan(inner)):
            beside = ignored_keys(found, ("name", key))
            given, found = found.get("name", inner.get("name")), inner
            break
    name = _name(given, file, place)
    read = next((read for is_one, read in _OTHER_TOOLS if is_one(found)), None)
    if read is not None:
        return read(
            found, _name(_graph_name(found), file, place) if read is from_node_link else name, options
        )
    if is_execution_plan(found) or is_flink_plan(found):
        from_flink = from_execution_plan if is_execution_plan(found) else from_flink_plan
        return also_ignored(from_flink(found, name), beside)
    return _refused(found) or dict(found)


_OTHER_TOOLS = ((is_wfformat, from_wfformat), (is_node_link, from_node_link))


def _refused(document: Mapping[str, Any]) -> list[TopologyError]:
    """Why an object is no topology that is known to be something else."""
    if is_refusal(document):
        said = f"no topology, but a refusal: {document['error']}: {document['message']}"
        hint = "plan the topology that was refused"
        return [TopologyError(ErrorKind.MISSING_KEY, LINE, said, "a topology, or a plan", hint)]
    known = _no_job(document)
    return [] if known is None else [TopologyError(ErrorKind.UNKNOWN_KEY, LINE, *known)]


def _graph_name(document: Mapping[str, Any]) -> object:
    graph = document.get("graph")
    return graph.get("name") if type(graph) is dict else None


def _no_job(document: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """What an object is that is known and no job, what is allowed, and what to do; None: nothing known."""
    graph = "read it by networkx, and make a topology by penstock.import_graph"
    if "pact" in document or {"id", "predecessors"} <= document.keys():
        return "a node of a plan by itself", "a plan", "penstock import makes a topology of an array of nodes"
    if type(document.get("elements")) is dict and "nodes" in document["elements"]:
        return "a graph of Cytoscape", "a topology, or a plan", graph
    if type(document.get("graph")) is dict and "nodes" in document["graph"]:
        return "a graph in the JSON Graph Format", "a topology, or a plan", graph
    if {"jid", "state", "start-time"} <= document.keys() or type(document.get("jobs")) is list:
        said = "what Flink's REST interface says of running jobs"
        return said, "the details of a job", "GET /jobs/:id gives them, with the job's plan"
    if {"cells", "nbformat"} <= document.keys():
        return "a Jupyter notebook", "a topology, or a plan", "penstock.plan plans what a notebook makes"
    return None


def _name(given: object, file: str | None, place: int) -> str:
    return given if type(given) is str and given else name_of_file(file, place)


def name_of_file(file: str | None, place: int) -> str:
    """The name of the file without what it ends in, with the `place` in it (from 0) after the first."""
    name = "imported" if file is None or file.startswith("/dev/") else os.path.basename(file)
    stem, ending = os.path.splitext(name)
    if ending.lower() in CODECS:
        stem = os.path.splitext(stem)[0]
    return f"{stem or name}-{place + 1}" if place else stem or name
