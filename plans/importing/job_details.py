"""A job as Flink's REST interface gives it at /jobs/:id, as a topology: its plan, and details of vertices.

Source: org.apache.flink.runtime.rest.messages.job.JobDetailsInfo.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.flink_plan import from_flink_plan, is_flink_plan
from penstock.plans.importing.imported import Imported, also_ignored, errors_of_known, ignored_keys
from penstock.plans.importing.node_errors import errors_of_nodes
from penstock.plans.importing.stream_graph_form import DEFAULT_GROUP
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.rules import INT32_MAX, Rules, integer, text
from penstock.plans.vocabulary import JobType

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
    """Whether an object is one: a plan with the details of its vertices."""
    plan, vertices = document.get("plan"), document.get("vertices")
    return type(plan) is dict and is_flink_plan(plan) and type(vertices) is list


def from_job_details(document: Mapping[str, Any], name: str) -> Imported:
    """A topology named `name`: as from_flink_plan, with names, max parallelism and slot sharing groups.

    The groups are told apart by their ids; they are called as the document says where it does.
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
    if any("name" in one for one in known.values()):
        ignored.add("nodes.description")
    return also_ignored(from_flink_plan(plan, name, known), ignored)


def _groups(vertices: Sequence[Mapping[str, Any]], job_type: str) -> dict[str, str]:
    """The slot sharing group of each vertex that has one.

    A name that several ids have does not tell groups apart. In batch jobs, Flink divides the group "default"
    by pipelined regions, which is what the document shows already.
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
    called = {one: one if names.get(one, "") in ("", *unclear) else names[one] for one in ids.values()}
    return {vertex: called[group] for vertex, group in ids.items()}


def _set(vertex: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in vertex.items() if value is not None}


def _max_parallelism(vertex: Mapping[str, Any]) -> dict[str, int]:
    """That of a vertex that has one which Flink would accept."""
    found = vertex.get("maxParallelism", -1)
    return {"max_parallelism": found} if 0 < found <= _MAX_PARALLELISM else {}


def _vertex_errors(vertex: Mapping[str, Any], where: str) -> list[TopologyError]:
    return errors_of_known(vertex, _VERTEX, ("id",), where)
