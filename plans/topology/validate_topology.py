"""All errors of one parsed topology line, without Spark."""

from collections.abc import Callable
from typing import Any

import orjson

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.errors import TopologyError
from penstock.plans.topology.job_settings import check_stream_graph_checkpointing, setting_errors
from penstock.plans.topology.operator_rules import MAX_PARALLELISM_RULE, PARALLELISM
from penstock.plans.topology.rules import (
    Rule,
    Rules,
    boolean,
    explain_keys,
    json_type,
    mapping,
    shorten,
    text,
    wrong_type,
)
from penstock.plans.topology.validate_stream_graph import validate_stream_graph
from penstock.plans.topology.validate_transformations import validate_transformations
from penstock.plans.vocabulary import TopologyForm

LINE = "line"
"""Location of an error of a whole line; the rejected table puts its number and file there."""

_BEGINNING = 400
"""Bytes of a line that is no JSON of which an error shows the first characters."""


def _anything(allowed: str) -> Rule:
    """A value that is checked elsewhere."""
    return Rule(lambda _: True, lambda *_: [], allowed)


def _config() -> Rule:
    """Flink options; a bare number or boolean is refused with the string that is meant."""
    allowed = "an object of Flink option keys to strings"
    keys_are_strings = mapping(text(), text(), allowed)

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not dict:
            return [wrong_type(location, key, value, allowed)]
        return [
            wrong_type(
                location,
                f"config.{k}",
                v,
                "a string",
                f'write "{orjson.dumps(v).decode()}"' if isinstance(v, int | float) else "",
            )
            for k, v in value.items()
            if type(v) is not str
        ]

    return Rule(keys_are_strings.accepts, explain, allowed)


CONFIG = _config()

_RULES: Rules = {
    "name": text("a string, not empty", bool),
    "parallelism": PARALLELISM,
    "max_parallelism": MAX_PARALLELISM_RULE,
    "chaining": boolean(),
    "config": CONFIG,
    "transformations": _anything("a list of transformations"),
    "stream_graph": _anything("an object"),
}

TOPOLOGY_KEYS = tuple(_RULES)
"""The keys that a topology may have."""


def parse_topology(line: bytes) -> dict[str, Any] | TopologyError:
    """The object that a line holds, or why it holds none."""
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as e:
        return TopologyError(
            ErrorKind.NOT_JSON,
            LINE,
            f"{shorten(line[:_BEGINNING].decode('utf-8', 'replace'), 60)} ({e})",
            "one JSON object per line, in UTF-8",
            "files that end in .gz are unpacked, others are not" if line[:2] == b"\x1f\x8b" else "",
        )
    if type(parsed) is not dict:
        return TopologyError(ErrorKind.NOT_AN_OBJECT, LINE, json_type(parsed), "one JSON object per line", "")
    return parsed


def validate_topology(
    topology: dict[str, Any],
    of_transformations: Callable[[Any], list[TopologyError]] = validate_transformations,
) -> list[TopologyError]:
    """Every error of one topology (docs/topology-files.md); empty if it can be planned.

    Checks top-level keys and all of `transformations` or `stream_graph`. Flink options are checked only if
    something else is wrong: where they alone are wrong, Flink's own refusal is reported. Nothing here depends
    on other topologies.
    """
    errors = explain_keys(topology, _RULES, ("name",), "topology")
    config = topology.get("config", {})
    forms = [form for form in TopologyForm if form in topology]
    if len(forms) != 1:
        errors.append(
            TopologyError(
                ErrorKind.KEY_NOT_ALLOWED if forms else ErrorKind.MISSING_KEY,
                "topology",
                "both transformations and stream_graph"
                if forms
                else "neither transformations nor stream_graph",
                "one of transformations, stream_graph",
                "",
            )
        )
    if TopologyForm.TRANSFORMATIONS in topology:
        errors += of_transformations(topology["transformations"])
    if TopologyForm.STREAM_GRAPH in topology:
        errors += validate_stream_graph(topology["stream_graph"])
        if not errors:
            errors += check_stream_graph_checkpointing(topology["stream_graph"], config)
        if "chaining" in topology:
            errors.append(
                TopologyError(
                    ErrorKind.KEY_NOT_ALLOWED,
                    "topology",
                    "key chaining beside stream_graph",
                    "name, stream_graph, parallelism, max_parallelism, config",
                    "a stream graph says it in chaining_enabled",
                )
            )
    if errors and type(config) is dict:
        errors += setting_errors({k: v for k, v in config.items() if type(v) is str})
    return errors
