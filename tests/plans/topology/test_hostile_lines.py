"""No line stops the others, and none gets lost, whatever the lines hold, with each planner."""

import json
from typing import Any

import pytest

from penstock.engine.store.open_plan import open_plan
from penstock.plans.printable import MOST_ERRORS
from penstock.plans.topology.rules import shorten
from tests.plans.planners.lines_both_ways import expected, few_are_many, found
from tests.plans.planners.test_read_topologies import COLLIDING
from tests.plans.topology.builders import golden_lines, simple
from tests.plans.topology.hostile_lines import RAW, hostile_lines
from tests.plans.topology.planned_alike import PLANNERS, command, plan_alike
from tests.plans.topology.test_limit_expansion import REFUSED
from tests.plans.topology.test_limit_expansion import topologies as large_topologies

SORT_REFUSED = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.enabled": "false"}
NAMES = [
    simple("settings first", config=SORT_REFUSED),
    simple("settings first"),
    simple("settings second"),
    simple("settings second", config=SORT_REFUSED),
    simple("both right"),
    simple("both right"),
    simple("both right", paralelism=3),
    simple("one wrong", paralelism=3),
    simple("one wrong"),
    simple("graph first"),
    simple("graph first"),
    *(simple(name) for name in COLLIDING),
    simple("blank"),
    simple("blank "),
    simple("caf\u00e9"),
    simple("cafe\u0301"),
    simple(""),
    simple(None),
    simple(None, config=SORT_REFUSED),
    simple("same refusal", config=SORT_REFUSED),
    simple("same refusal", config=SORT_REFUSED),
]
"""Names that come twice, in all ways; refused while it is read, for its settings, or as a graph."""
NAMES[9]["transformations"][1]["uid"] = NAMES[9]["transformations"][0]["uid"] = "u"
LONG_UID = simple("long uid")
for transformation in LONG_UID["transformations"]:
    transformation["uid"] = "u" * 100_000
PLANNED_NAMES = {
    "settings first": 2,
    "settings second": 3,
    "both right": 5,
    "one wrong": 9,
    COLLIDING[0]: 12,
    "blank": 14,
    "blank ": 15,
    "caf\u00e9": 16,
    "cafe\u0301": 17,
}
"""To their lines: the first that is right when it is read, and the others are rejected."""


def encoded(*topologies: Any) -> list[bytes]:
    return [json.dumps(topology).encode() for topology in topologies]


def errors_of(line: bytes) -> list[dict[str, str]]:
    """Of one line, which both ways of reading give."""
    with few_are_many():
        rows = found(line + b"\n")
    assert rows == expected(line + b"\n")
    (row,) = rows
    return row["errors"] or []


@pytest.mark.slow
def test_every_line_is_planned_or_rejected_once(tmp_path):
    planned, rejected = plan_alike(list(hostile_lines(11, 600)), tmp_path, ["columnar"])
    assert planned > 100
    assert rejected > 100


def test_all_planners_say_the_same_of_hostile_lines(spark, tmp_path):
    made = encoded(*NAMES, LONG_UID, *large_topologies())
    lines = [*hostile_lines(12, 120), *made, *map(deep_in_a_known_key, (254, 980, 1_000, 1_030))]
    planned, rejected = plan_alike(lines, tmp_path, PLANNERS)
    assert min(planned, rejected) > 30
    refused = open_plan(str(tmp_path / "joins_on_Spark")).table("rejected").collect()
    assert set(refused["name"]) >= REFUSED


def deep_in_a_known_key(depth: int) -> bytes:
    return b'{"name":' + b"[" * depth + b"]" * depth + b',"transformations":[]}'


@pytest.mark.slow
@pytest.mark.parametrize(
    "depth", [50, 126, 127, 128, 250, 253, 254, 255, 500, 980, 1_000, 1_023, 1_030, 50_000]
)
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_values_are_rejected_wherever_they_stand(depth, opening, closing):
    deep = opening * depth + b"1" + closing * depth
    topology = json.dumps(simple("n", config={"k": "v"})).encode()
    for place in (b'"n"', b'"v"', b'"config"', b"[1]", b'"source"', b"1"):
        assert place in topology
        line = topology.replace(place, b'"x":' + deep + b',"config"' if place == b'"config"' else deep, 1)
        (first, *_) = errors_of(line)
        assert first["error"] in ("WrongType", "UnknownKey", "NotJson"), first


@pytest.mark.slow
@pytest.mark.parametrize("raw", RAW, ids=range(len(RAW)))
def test_odd_values_stop_nothing(raw):
    topology = json.dumps(simple("n", config={"execution.checkpointing.interval": "10 s"})).encode()
    for place in (b'"n"', b'"10 s"', b"[1]", b'"source"', b"1"):
        errors_of(topology.replace(place, raw, 1).replace(b"\n", b" "))


def test_values_are_quoted_as_repr_writes_them():
    value = {"a": [1, -0.5, None, {"b'": 'c"', "": []}], "d": {}, "e": "\x00\n", "f": ["x" * 300]}
    text = repr(value)
    assert [shorten(value, most) for most in range(1, 99)] == [
        text[: most - 1] + "…" for most in range(1, 99)
    ]
    assert shorten(value, len(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES[0:1] + NAMES[1:2], ids=["refused", "planned"])
def test_a_refused_topology_never_hides_a_planned_one_of_its_name(tmp_path, first):
    second = next(t for t in NAMES[:2] if t is not first)
    assert plan_alike(encoded(first, second), tmp_path, ["columnar"]) == (1, 1)
    shown = command("show", tmp_path / "columnar", "--topology", "settings first")
    assert "refused (stream_graph): IllegalStateException" in shown
    assert "3 operators in" in shown


def test_a_name_belongs_to_the_first_line_that_is_right(tmp_path):
    assert plan_alike(encoded(*NAMES), tmp_path, ["columnar"]) == (
        len(PLANNED_NAMES),
        len(NAMES) - len(PLANNED_NAMES),
    )
    planned = open_plan(str(tmp_path / "columnar")).table("topologies").collect()
    assert dict(zip(planned["name"], planned["source_line"], strict=True)) == PLANNED_NAMES
    shown = command("show", tmp_path / "columnar", "--topology", COLLIDING[1])
    assert "TopologyIdCollision" in shown
    assert "operators in" not in shown


@pytest.mark.slow
def test_a_later_version_holds_what_came_in_then(tmp_path):
    source, store = tmp_path / "lines.jsonl", tmp_path / "store"
    for version, topologies in enumerate((NAMES[:2], NAMES[:2], NAMES[:3], NAMES[1:2] * 3), 1):
        source.write_bytes(b"\n".join(encoded(*topologies)))
        said = command("plan", source, "--out", store)
        number = max(1, version - 1)
        assert f"version {number} holds" in said
        assert len(command("export", store).splitlines()) == len(topologies)


def test_keys_that_come_twice_are_an_error_at_every_level():
    topology = simple("n", config={"a": "b"})
    topology["transformations"][1]["managed_memory"] = {"OPERATOR": 1}
    line = json.dumps(topology).encode()
    places = {
        b'"name": "n"': ("topology", "key name 2 times"),
        b'"a": "b"': ("topology", "key config.a 2 times"),
        b'"config": {"a": "b"}': ("topology", "key config 2 times"),
        b'"id": 2': ("transformation 2", "key id 2 times"),
        b'"OPERATOR": 1': ("transformation 2", "key managed_memory.OPERATOR 2 times"),
    }
    assert errors_of(line) == []
    for member, (location, text) in places.items():
        key, value = member.split(b": ", 1)
        for again in (member, key + b' : "other"', b'"\\u00' + b"%x" % key[1] + key[2:] + b": " + value):
            twice = line.replace(member, member + b"," + again, 1)
            (error,) = (e for e in errors_of(twice) if e["error"] == "DuplicateKey")
            assert error["found"] == text
            assert error["location"] in (location, "transformation at position 2")


def test_a_stream_graphs_keys_come_once_too():
    graph = next(t for line in golden_lines(3) if "stream_graph" in (t := line["topology"]))
    text = json.dumps(graph).encode()
    found_at = [
        (
            text.replace(b'"dynamic":', b'"dynamic": true, "dynamic":', 1),
            "stream_graph",
            "key dynamic 2 times",
        ),
        (
            text.replace(b'"uid":', b'"uid": null, "uid":', 1),
            f"node {graph['stream_graph']['nodes'][0]['id']}",
            "key uid 2 times",
        ),
    ]
    for twice, location, said in found_at:
        assert (location, said) in {(e["location"], e["found"]) for e in errors_of(twice)}


def test_colons_and_braces_in_strings_are_no_keys():
    topology = simple('a:{"b":1,"b":1}', config={'c:"': "\\\u003a:", "c:": '{"a":1,"a":1}'})
    for line in (
        json.dumps(topology),
        json.dumps(topology).replace(":", "\\u003a", 1).replace('"name"\\u003a', '"name":'),
    ):
        assert errors_of(line.encode()) == []


def test_messages_are_short_and_say_how_many_more():
    many = simple("n", **{f"unknown {i}": i for i in range(3_000)})
    long = simple("n", config={"k" * 3_000_000: 1})
    found_errors = errors_of(json.dumps(many).encode())
    assert (len(found_errors), found_errors[-1]["error"]) == (MOST_ERRORS + 1, "MoreErrors")
    assert found_errors[-1]["found"] == "2,980 more errors"
    (error,) = errors_of(json.dumps(long).encode())
    assert error["found"].endswith("more characters)")
    assert len("".join(error.values())) < 5_000


def test_a_refusal_that_quotes_a_long_uid_is_cut(tmp_path):
    assert plan_alike(encoded(LONG_UID, simple("m")), tmp_path, ["columnar"]) == (1, 1)
    (message,) = open_plan(str(tmp_path / "columnar")).table("rejected").collect()["message"]
    assert message.endswith("more characters)")


def test_objects_that_no_json_says_stop_nothing():
    from penstock.plans.topology.lines_batch import read_topology_objects

    class Broken(dict[str, Any]):
        def keys(self) -> Any:
            raise RuntimeError("no keys")

    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    given: list[Any] = [
        simple("a"), simple("b", parallelism=2**70), simple("c", x=nested), simple("\ud800"), {1: 2}, None, 5,
        [1], "not json", b"\xff", Broken(), {"name": float("nan")}, simple("d"),
    ]  # fmt: skip
    read = read_topology_objects(given)
    assert (read.inputs, list(read.topologies["name"])) == (len(given), ["a", "d"])
    assert len(read.rejected) == len(given) - 2
