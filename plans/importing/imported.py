"""The result of importing a document: a topology, with notes of what was assumed and ignored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.rules import Rules, explain_keys

FORM_KEY = "penstock.import.form"
ASSUMED_KEY = "penstock.import.assumed"
IGNORED_KEY = "penstock.import.ignored"
FILE_KEY = "penstock.import.file"
"""Keys of an imported topology's configuration: its form, what was filled in, what was left, and its file."""

READ_FORMS = (
    "DOT, GraphML, Pajek, edge lists, graphs in JSON (node-link, vis.js, d3, Cytoscape, Arroyo), WfFormat, "
    "STG, daggen, Pegasus (DAX, YAML), Alibaba's batch tasks, Flink's JSON, flink info, EXPLAIN and plan JSON"
)
"""The forms that are read, for messages."""

Imported = dict[str, Any] | list[TopologyError]
"""A topology as docs/topology-files.md describes it, or why there is none."""


def with_notes(
    topology: Mapping[str, Any], form: str, assumed: Mapping[str, str], ignored: Iterable[str] = ()
) -> dict[str, Any]:
    """`topology` with notes of its import in its configuration, which planning does not read."""
    notes = {FORM_KEY: form}
    if assumed:
        notes[ASSUMED_KEY] = "; ".join(f"{key} = {value}" for key, value in assumed.items())
    if ignored_text := "; ".join(sorted(ignored)):
        notes[IGNORED_KEY] = ignored_text
    return {**topology, "config": {**topology.get("config", {}), **notes}}


def also_ignored(imported: Imported, ignored: Iterable[str]) -> Imported:
    """`imported`, whose notes say that these were left, too."""
    ignored_names = set(ignored)
    if not ignored_names or isinstance(imported, list):
        return imported
    config = imported["config"]
    ignored_names |= set(filter(None, config.get(IGNORED_KEY, "").split("; ")))
    return {**imported, "config": {**config, IGNORED_KEY: "; ".join(sorted(ignored_names))}}


def errors_of_known(
    entry: Mapping[str, Any], rules: Rules, required: Sequence[str], location: str
) -> list[TopologyError]:
    """As explain_keys, of the keys that `rules` knows: other tools' objects may have more."""
    return explain_keys({key: entry[key] for key in rules if key in entry}, rules, required, location)


def ignored_keys(entry: Mapping[str, Any], known: Iterable[str]) -> set[str]:
    """Keys with a value that are not among the `known` ones."""
    return {key for key in entry.keys() - set(known) if entry[key] not in (None, "", {}, [])}
