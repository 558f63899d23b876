"""Uid hashes that Flink refuses, which it does before it reads any setting."""

from collections.abc import Sequence
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.error_kinds import STREAM_GRAPH_STAGE, ErrorKind
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.setting_refusals import ILLEGAL_ARGUMENT, FlinkRefusal

_MESSAGE = "Node hash must be a 32 character String that describes a hex code. Found: "


def refuse_uid_hashes(topology: dict[str, Any], errors: Sequence[TopologyError]) -> FlinkRefusal | None:
    """Flink's refusal, if nothing but uid hashes (and options) is wrong with the `transformations`.

    `errors`: all that validate_topology finds. Source: Transformation.setUidHash.
    """
    if "transformations" not in topology or not all(map(_is_flinks, errors)):
        return None
    hashes = (entry.get("uid_hash") for entry in topology["transformations"])
    wrong = [uid_hash for uid_hash in hashes if uid_hash is not None and not UID_HASH.accepts(uid_hash)]
    if not wrong:
        return None
    return FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_ARGUMENT, f"{_MESSAGE}{wrong[0]}", tuple(errors))


def _is_flinks(error: TopologyError) -> bool:
    of_hash = error.error == ErrorKind.OUT_OF_RANGE and error.found.startswith("uid_hash ")
    return of_hash or error.error == ErrorKind.INVALID_OPTION_VALUE
