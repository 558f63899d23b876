"""Suggestions of `penstock diff` are followed and planned again: the operators then keep their state."""

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.library.open_source import topologies_to_choose
from penstock.engine.planning.plan_in_process import read_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.views.diff.diff_sides import diff_sides
from penstock.engine.views.diff.savepoint_verdicts import (
    Change,
    Counts,
    Pair,
    TopologyDiff,
    Verdict,
    savepoint_verdicts,
)
from penstock.engine.views.diff.side_of_store import Side, side_of

PAIRS = Path(__file__).parents[3] / "plans" / "savepoint" / "pairs.jsonl.gz"

Topology = dict[str, Any]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Topology, Topology]]:
    """Pairs whose verdicts are known of the real Flink, under names that pair them."""
    with gzip.open(PAIRS, "rt", encoding="utf-8") as file:
        given = [json.loads(line)["pair"] for line in file]
    return [
        ({**pair["old"], "name": str(number)}, {**pair["new"], "name": str(number)})
        for number, pair in enumerate(given)
    ]


def side(folder: Path, name: str, topologies: list[Topology]) -> Side:
    read = read_in_process(topologies)
    (folder / name).mkdir(exist_ok=True)
    return side_of(topologies_to_choose(name, [read], plan_options(), str(folder / name)), folder / name)


@pytest.fixture(scope="module")
def found(pairs, tmp_path_factory) -> dict[str, TopologyDiff]:
    folder = tmp_path_factory.mktemp("sides")
    olds, news = map(list, zip(*pairs, strict=True))
    return {
        one.name: one
        for one in diff_sides(side(folder, "old", olds), side(folder, "new", news), Counts(), ["*"])
    }


@pytest.mark.slow
def test_verdicts_are_those_of_pairs(pairs, found):
    asked = [Pair(old["name"], old, new, None) for old, new in pairs]
    compared = 0
    for pair in savepoint_verdicts(asked):
        one = found.get(pair.name)
        if one is not None and one.restored is not None:
            assert one.restored._replace(name=pair.name) == pair
            compared += 1
        elif one is not None:
            assert pair.verdict == Verdict.NOT_PLANNED
    assert compared > 100


def test_every_state_that_is_refused_or_lost_has_its_operator_named(found):
    for one in found.values():
        if one.verdict in (Verdict.ALLOW_NON_RESTORED, Verdict.REFUSED):
            assert one.lost or one.mismatched, one.name
        if one.verdict == Verdict.RESTORES:
            assert not one.lost, one.name


def test_operators_that_get_the_suggested_uid_keep_their_state(pairs, found, tmp_path):
    mended = [
        (old, followed(new, found[new["name"]])) for old, new in pairs if suggests(found.get(new["name"]))
    ]
    olds, news = map(list, zip(*mended, strict=True))
    again = diff_sides(side(tmp_path, "old", olds), side(tmp_path, "new", news), Counts(), ["*"])
    after = {one.name: one for one in again}
    assert sum(len(found[new["name"]].lost) for new in news) > 100
    restored = 0
    for new in news:
        before, now = found[new["name"]], after.get(new["name"], TopologyDiff(new["name"], Change.EQUAL))
        assert not now.refused
        suggested = {row["operator_id"] for row in before.lost if row["suggestion"]}
        assert suggested.isdisjoint(ids(now.lost)), now.name
        assert ids(now.lost) <= ids(before.lost), now.name
        assert ids(now.taken) <= ids(before.taken), now.name
        followed_here = {row["operator_id"] for row in before.mismatched if row["suggestion"]}
        assert followed_here.isdisjoint(ids(now.mismatched)), now.name
        restored += now.verdict in (None, Verdict.RESTORES)
    assert restored > len(news) / 2


def ids(rows: list[dict[str, Any]]) -> set[str]:
    return {row["operator_id"] for row in rows}


def suggests(one: TopologyDiff | None) -> bool:
    return one is not None and any(row["suggestion"] for row in (*one.lost, *one.mismatched))


def followed(topology: Topology, one: TopologyDiff) -> Topology:
    """The topology with everything set that is suggested."""
    mended = deepcopy(topology)
    by_id = {operator["id"]: operator for operator in mended["transformations"]}
    for row in one.lost:
        if row["suggestion"]:
            by_id[row["becomes"]["node"]].update(row["suggestion"])
    for row in one.mismatched:
        by_id[row["by"]["node"]].update(row["suggestion"])
    return mended
