"""Recognise the form of an object that is not in the form of docs/topology-files.md."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.importing.execution_plan import from_execution_plan, is_execution_plan
from penstock.plans.importing.given_graph import (
    AS_GIVEN,
    Imported,
    ImportOptions,
    also_ignored,
    attribute_name,
    errors_of_known,
    ignored_keys,
)
from penstock.plans.importing.importers import IMPORTERS, READ_FORMS
from penstock.plans.importing.json_graphs import from_json_graph
from penstock.plans.importing.node_errors import errors_of_nodes
from penstock.plans.importing.plan_json import from_plan_json, is_plan_json, is_refusal
from penstock.plans.importing.stream_graph_form import DEFAULT_GROUP, from_flink_plan, is_flink_plan
from penstock.plans.printable import first_and_count
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.rules import INT32_MAX, Rules, integer, text
from penstock.plans.topology.unpacked_texts import CODECS
from penstock.plans.topology.validate_topology import LINE
from penstock.plans.vocabulary import JobType, TopologyForm

# All known forms.


def as_topology(
    document: Mapping[str, Any], file: str | None, place: int, options: ImportOptions = AS_GIVEN
) -> Imported:
    """Convert `document` to a topology; return it unchanged if it is one already or in no known form.

    Forms: Flink's plan of a job, with or without details of the job, and its execution plan, each in Flink's
    format or in the format of export; plan JSON; and, read with `options`, objects that IMPORTERS take, and
    graphs of other tools (json_graphs). A document without a name takes the name of its file, with its
    `place` (from 0) after the first.
    """
    if TopologyForm.TRANSFORMATIONS in document:
        return dict(document)
    if is_plan_json(document):
        return from_plan_json(document)
    if TopologyForm.STREAM_GRAPH in document:
        return dict(document)
    own_name = document.get("name")
    if is_job_details(document):
        return from_job_details(document, _name(own_name or document["plan"].get("name"), file, place))
    ignored_beside: set[str] = set()
    for key in ("flink_plan", "plan", "execution_plan"):
        inner = document.get(key)
        if type(inner) is dict and (is_flink_plan(inner) or is_execution_plan(inner)):
            ignored_beside = ignored_keys(document, ("name", key))
            own_name, document = document.get("name", inner.get("name")), inner
            break
    name = _name(own_name, file, place)
    for importer in IMPORTERS:
        if importer.takes is not None and importer.takes(document):
            imported: Imported = importer.read(document, name, options)
            return imported
    graph = from_json_graph(document, name, options)
    if graph is not None:
        return graph
    if is_execution_plan(document) or is_flink_plan(document):
        from_flink = from_execution_plan if is_execution_plan(document) else from_flink_plan
        return also_ignored(from_flink(document, name), ignored_beside)
    return _refused(document) or dict(document)


_NETWORKX = "read it with networkx, and convert it with penstock.import_graph"
_REST_RESULT = "a description of running jobs of Flink's REST interface"
_NODE_ALONE = "a node of a plan by itself"
_ARRAY = "penstock import accepts an array of nodes"
_DETAILS = "GET /jobs/:id returns the details of a job, with its plan"
READS = f"penstock import reads {READ_FORMS}"


def _refused(document: Mapping[str, Any]) -> list[TopologyError]:
    """Return the error for an object that is known to be something other than a topology."""
    if is_refusal(document):
        refusal = f"a refusal instead of a topology: {document['error']}: {document['message']}"
        hint = "plan the topology that was refused"
        return [TopologyError(ErrorKind.MISSING_KEY, LINE, refusal, "a topology, or a plan", hint)]
    known = _description(document)
    return [] if known is None else [TopologyError(ErrorKind.UNKNOWN_KEY, LINE, *known)]


_TOPOLOGY_KEYS = ("transformations", "stream_graph", "job_graph", "execution_graph", "slots")
_KNOWN_OBJECTS = (
    ({"pact"}, _NODE_ALONE, _ARRAY),
    ({"id", "predecessors"}, _NODE_ALONE, _ARRAY),
    ({"jid", "state", "start-time"}, _REST_RESULT, _DETAILS),
    ({"jobs"}, _REST_RESULT, _DETAILS),
    ({"cells", "nbformat"}, "a Jupyter notebook", "penstock.plan plans the jobs of a notebook"),
    ({"vertices", "edges"}, "a graph of vertices and edges (GraphSON)", _NETWORKX),
    ({"outE"}, "a vertex of GraphSON", _NETWORKX),
    ({"inE"}, "a vertex of GraphSON", _NETWORKX),
    ({"outV", "inV"}, "an edge of GraphSON", _NETWORKX),
    ({"children"}, "a tree (networkx's tree_data, or d3's hierarchies)", _NETWORKX),
    ({"dag_id"}, "a DAG of Airflow", "penstock import reads graphs of streaming jobs, such as DOT"),
    ({"spouts", "bolts"}, "a topology of Storm", "penstock import reads it as DOT or an edge list"),
    ({"graphs"}, "several graphs in the JSON Graph Format", "write each by itself, under the key graph"),
    ({"graph"}, "a graph in the JSON Graph Format without a list of edges", _NETWORKX),
    ({"elements"}, "a graph of Cytoscape without elements that have data", _NETWORKX),
    ({"nodes"}, "nodes without a list of edges", "edges are listed under edges or links"),
)
"""Keys of known objects that are not topologies, with a description and a hint."""


def _description(document: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return description, allowed values and hint for a known object that is not a job; None if it is
    unknown.
    """
    for keys, description, hint in _KNOWN_OBJECTS:
        if all(document.get(key) is not None for key in keys) and (
            keys != {"jobs"} or type(document["jobs"]) is list
        ):
            return description, "a topology, or a plan", hint
    return None


def unknown_form(document: Mapping[str, Any]) -> TopologyError | None:
    """Return the single error for an object in no known form, with its keys; None for a topology."""
    if not document.keys().isdisjoint((*_TOPOLOGY_KEYS, "name")) or not document:
        return None
    keys = [attribute_name(key) for key in document]
    found = f"an object with the keys {first_and_count(keys, most=8)}"
    return TopologyError(ErrorKind.UNKNOWN_KEY, LINE, found, "a topology, a plan or a graph", READS)


def _name(name: object, file: str | None, place: int) -> str:
    return name if type(name) is str and name else name_of_file(file, place)


def name_of_file(file: str | None, place: int) -> str:
    """Return the file name without its extension, with the `place` in it (from 0) after the first."""
    name = "imported" if file is None or file.startswith("/dev/") else os.path.basename(file)
    stem, ending = os.path.splitext(name)
    if ending.lower() in CODECS:
        stem = os.path.splitext(stem)[0]
    return f"{stem or name}-{place + 1}" if place else stem or name


# A job in the format of Flink's REST interface at /jobs/:id, as a topology: its plan, and details of
# vertices.
#
# Source: org.apache.flink.runtime.rest.messages.job.JobDetailsInfo.


_MAX_PARALLELISM = 1 << 15
_VERTEX: Rules = {
    "id": UID_HASH,
    "name": text("the name of the vertex", bool),
    "maxParallelism": integer(-1, INT32_MAX, "the largest number of subtasks, or -1"),
    "slotSharingGroupId": UID_HASH,
    "slotSharingGroupName": text("the name of the group"),
}
_READ = ("name", "plan", "vertices", "job-type", "jid")


def is_job_details(document: Mapping[str, Any]) -> bool:
    """Return whether an object is a plan with the details of its vertices."""
    plan, vertices = document.get("plan"), document.get("vertices")
    return type(plan) is dict and is_flink_plan(plan) and type(vertices) is list


def from_job_details(document: Mapping[str, Any], name: str) -> Imported:
    """Return a topology named `name`, as from_flink_plan, with names, max parallelism and slot sharing
    groups.

    Groups are distinguished by their ids and named as in the document, if it names them.
    """
    plan = document["plan"]
    vertices = [_set(vertex) if type(vertex) is dict else vertex for vertex in document["vertices"]]
    errors = errors_of_nodes(vertices, "details of vertex", _vertex_errors)
    if errors:
        return errors
    job_type = plan.get("type", document.get("job-type", str(JobType.STREAMING)))
    groups = _groups(vertices, job_type)
    known = {
        vertex["id"]: {
            **({"name": vertex["name"]} if "name" in vertex else {}),
            **_max_parallelism(vertex),
            **({"slot_sharing_group": groups[vertex["id"]]} if vertex["id"] in groups else {}),
        }
        for vertex in vertices
    }
    if "type" not in plan and "job-type" in document:
        plan = {**plan, "type": job_type}
    ignored = {f"job.{key}" for key in ignored_keys(document, _READ)}
    ignored |= {f"vertices.{key}" for vertex in vertices for key in ignored_keys(vertex, _VERTEX)}
    if any("name" in facts for facts in known.values()):
        ignored.add("nodes.description")
    return also_ignored(from_flink_plan(plan, name, known), ignored)


def _groups(vertices: Sequence[Mapping[str, Any]], job_type: str) -> dict[str, str]:
    """Return the slot sharing group of each vertex that has one.

    A name shared by several ids does not distinguish groups. In batch jobs, Flink divides the group "default"
    by pipelined regions, which the document shows already.
    """
    ids = {
        vertex["id"]: vertex["slotSharingGroupId"] for vertex in vertices if "slotSharingGroupId" in vertex
    }
    if not ids:
        return {
            vertex["id"]: vertex["slotSharingGroupName"]
            for vertex in vertices
            if vertex.get("slotSharingGroupName")
        }
    names: dict[str, str] = {}
    for vertex in vertices:
        if vertex.get("slotSharingGroupName") and vertex["id"] in ids:
            names.setdefault(ids[vertex["id"]], vertex["slotSharingGroupName"])
    if len(set(ids.values())) == 1 and not names and job_type != JobType.BATCH:
        names = dict.fromkeys(ids.values(), DEFAULT_GROUP)
    unclear = [name for name in names.values() if list(names.values()).count(name) > 1]
    if job_type == JobType.BATCH:
        unclear.append(DEFAULT_GROUP)
    group_names = {
        group: group if names.get(group, "") in ("", *unclear) else names[group] for group in ids.values()
    }
    return {vertex: group_names[group] for vertex, group in ids.items()}


def _set(vertex: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in vertex.items() if value is not None}


def _max_parallelism(vertex: Mapping[str, Any]) -> dict[str, int]:
    """Return the max parallelism of a vertex, if Flink would accept it."""
    max_parallelism = vertex.get("maxParallelism", -1)
    return {"max_parallelism": max_parallelism} if 0 < max_parallelism <= _MAX_PARALLELISM else {}


def _vertex_errors(vertex: Mapping[str, Any], where: str) -> list[TopologyError]:
    return errors_of_known(vertex, _VERTEX, ("id",), where)
