"""`penstock diff A B`: what differs between files, stores and scripts, in text and JSON."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.views.diff import diff_sides
from tests.engine.views.draw.pictures import hostile_topology

PAGE = (Path(__file__).parents[4] / "docs" / "comparing.md").read_text(encoding="utf-8")
OLD, NEW = (json.loads(text) for text in re.findall(r'```json title=".*?"\n(.*?)```', PAGE, re.DOTALL))


def run(*arguments):
    result = CliRunner().invoke(app, ["diff", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def differences(*arguments) -> dict[str, Any]:
    if "--stateful" not in arguments:
        arguments = (*arguments, "--stateful", "*")
    code, out, said = run(*arguments, "--json")
    assert (code, said) == (0, "")
    found = json.loads(out)
    return {"counts": found["counts"], **{one["name"]: one for one in found["topologies"]}}


def written(path, *topologies):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in topologies), encoding="utf-8")
    return path


def job(name, *operators, **settings):
    """A chain of one_input operators between a source and a sink; each operator as its keys."""
    made: list[dict[str, Any]] = [{"kind": "source", "name": "In", "uid": "in"}, *operators]
    made.append({"kind": "sink", "name": "Out", "uid": "out"})
    for number, one in enumerate(made, 1):
        made[number - 1] = {"kind": "one_input", "id": number, **one}
        if number > 1:
            made[number - 1].setdefault("inputs", [number - 1])
    return {"name": name, "transformations": made, **settings}


def compared(tmp_path, old, new):
    found = differences(written(tmp_path / "old.jsonl", old), written(tmp_path / "new.jsonl", new))
    return found[new["name"]]


FLEET = [
    job("same", {"name": "Map"}),
    job("renamed", {"name": "Map"}),
    job("gone", {"name": "Map"}),
    job("broken", {"name": "Map"}),
    job("mended", {"name": "Map"}, {"name": "Map", "uid": "out"}),
    job("always broken", {"name": "Map", "uid": "out"}),
    job("settings", {"name": "Map"}),
]
NEXT_FLEET = [
    FLEET[6] | {"config": {"execution.buffer-timeout.interval": "7 ms"}},
    FLEET[0],
    job("renamed", {"name": "Filter"}),
    job("broken", {"name": "Map", "uid": "in"}),
    job("mended", {"name": "Map"}),
    FLEET[5],
    job("come", {"name": "Map"}),
]


@pytest.fixture(scope="module")
def fleets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleets")
    files = (written(folder / "old.jsonl", *FLEET), written(folder / "new.jsonl", *NEXT_FLEET))
    for file in files:
        penstock.plan(file).write(folder / "store")
    penstock.plan(files[1]).write(folder / "other")
    return folder


def test_the_transcript_in_the_docs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(Path("old.json"), OLD)
    written(Path("new.json"), NEW)
    command, *lines = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()
    code, out, said = run(*command.split()[3:])
    assert (code, [*out.splitlines(), *said.splitlines()]) == (6, lines)


@pytest.mark.slow
def test_files_versions_and_stores_of_the_same_fleets_differ_alike(fleets):
    store = fleets / "store"
    found = differences(fleets / "old.jsonl", fleets / "new.jsonl")
    assert differences(store) == differences(f"{store}@1", f"{store}@2") == found
    assert differences(f"{store}@1", fleets / "other") == found
    assert differences(f"{store}@1", fleets / "new.jsonl") == found
    assert {name: one["change"] for name, one in found.items() if name != "counts"} == {
        "broken": "changed",
        "come": "added",
        "gone": "removed",
        "mended": "changed",
        "renamed": "changed",
        "settings": "changed",
    }
    assert found["counts"]["topologies"] == {"changed": 4, "added": 1, "removed": 1, "equal": 2}
    assert found["counts"]["verdicts"] == {
        "restores": 2,
        "restores-with-warnings": 0,
        "allow-non-restored": 0,
        "refused": 0,
        "not-planned": 1,
    }


def test_a_topology_that_is_refused_on_one_side_is_a_row(fleets):
    found = differences(fleets / "store")
    assert list(found["broken"]["refused"]) == ["new"]
    assert "Hash collision" in found["broken"]["refused"]["new"]["message"]
    assert found["broken"]["verdict"] == "not-planned"
    assert (list(found["mended"]["refused"]), found["mended"]["verdict"]) == (["old"], None)


def test_settings_alone_are_said_to_be_that(fleets):
    code, out, _ = run(fleets / "store", "--topology", "settings")
    assert code == 0
    assert "1 topology: 1 changed" in out
    assert "other settings only" in out


@pytest.mark.slow
def test_any_slicing_finds_the_same(fleets, monkeypatch):
    whole = differences(fleets / "store")
    monkeypatch.setattr(diff_sides, "OPERATORS_PER_SLICE", 5)
    monkeypatch.setattr(diff_sides, "TOPOLOGIES_AT_ONCE", 3)
    assert differences(fleets / "store") == whole


@pytest.mark.slow
def test_plans_of_other_options_are_compared_though_fingerprints_are_equal(fleets, tmp_path):
    store = tmp_path / "store"
    for memory in ("1728m", "4g"):
        penstock.plan(fleets / "old.jsonl", task_manager_memory=memory).write(store)
    assert differences(store)["counts"]["topologies"] == {
        "changed": 0,
        "added": 0,
        "removed": 0,
        "equal": 7,
    }


def test_operators_are_the_same_by_uid_name_or_id(tmp_path):
    old = job("j", {"name": "A", "uid": "a"}, {"name": "B"}, {"name": "C"}, {"name": "D"})
    new = job("j", {"name": "A2", "uid": "a"}, {"name": "B2"}, {"name": "C"}, {"name": "E"}, {"name": "E"})
    operators = compared(tmp_path, old, new)["operators"]
    assert [(one["old"], one["new"]) for one in operators["renamed"]] == [
        ("A", "A2"),
        ("B", "B2"),
        ("D", "E"),
    ]
    assert [one["name"] for one in operators["added"]] == ["E"]
    assert operators["removed"] == []


def test_the_operator_that_gets_the_state_of_another_is_named(tmp_path):
    old = job("j", {"name": "Filter"}, {"name": "Count"}, chaining=False)
    new = job("j", {"name": "Count"}, chaining=False)
    found = compared(tmp_path, old, new)
    (taken,) = found["taken"]
    assert (taken["operator"], taken["by"]["operator"]) == ("Filter", "Count")
    (lost,) = found["lost"]
    assert (lost["operator"], lost["suggestion"]) == ("Count", {"uid_hash": lost["operator_id"]})
    assert found["verdict"] == "allow-non-restored"


def test_an_operator_that_has_lost_its_uid_is_to_get_it_back(tmp_path):
    old, new = job("j", {"name": "Map", "uid": "map"}), job("j", {"name": "Map"})
    (lost,) = compared(tmp_path, old, new)["lost"]
    assert (lost["becomes"]["node"], lost["suggestion"]) == (2, {"uid": "map"})


@pytest.mark.slow
def test_only_operators_that_have_state_lose_it(tmp_path):
    old = written(tmp_path / "a", job("j", {"name": "Map", "uid": "m"}, {"name": "Count", "uid": "c"}))
    new = written(tmp_path / "b", job("j", {"name": "Map"}, {"name": "Count"}))
    for patterns, names in (
        ((), ["Map", "Count"]),
        (("C*t", "out"), ["Count"]),
        (("[A-B]", "in"), []),
        (("m",), ["Map"]),
    ):
        options = [option for pattern in patterns for option in ("--stateful", pattern)]
        found = differences(old, new, *options)["j"]
        assert [one["operator"] for one in found["lost"]] == names
        assert found["verdict"] == ("allow-non-restored" if names else "restores")


def test_chains_data_sets_parallelism_and_slots(tmp_path):
    old = job("j", {"name": "A", "uid": "a"}, {"name": "B", "uid": "b"}, parallelism=2)
    new = deepcopy(old)
    new["transformations"][2] |= {"parallelism": 5, "max_parallelism": 200}
    found = compared(tmp_path, old, new)
    assert found["chains"]["split"] == [
        {"chain": ["Source: In", "A", "B", "Sink: Out"], "into": [["Source: In", "A"], ["B"], ["Sink: Out"]]}
    ]
    assert [(one["source"], one["change"]) for one in found["data_sets"]] == [("A", "added"), ("B", "added")]
    (parallelism,) = found["operators"]["parallelism"]
    assert (parallelism["operator"], parallelism["old"], parallelism["new"]) == ("B", 2, 5)
    assert [(one["old"], one["new"]) for one in found["operators"]["max_parallelism"]] == [(128, 200)]
    assert found["slots"] == {"old": 2, "new": 5}
    (mismatched,) = found["mismatched"]
    assert (found["verdict"], mismatched["suggestion"]) == ("refused", {"max_parallelism": 128})
    back = compared(tmp_path, new, old)
    assert back["chains"]["joined"] == [
        {"chains": [["Source: In", "A"], ["B"], ["Sink: Out"]], "into": ["Source: In", "A", "B", "Sink: Out"]}
    ]


def test_another_exchange_between_the_same_operators(tmp_path):
    old = job("j", {"kind": "partition", "partitioner": "hash"}, {"name": "A", "uid": "a"}, parallelism=2)
    new = deepcopy(old)
    new["transformations"][1]["partitioner"] = "rebalance"
    (changed,) = compared(tmp_path, old, new)["data_sets"]
    assert changed["ship_strategy"] == {"old": "HASH", "new": "REBALANCE"}


def test_ids_of_data_sets_that_only_moved_with_the_numbers_of_nodes_are_no_change(tmp_path):
    old = job("j", {"kind": "partition", "partitioner": "hash"}, {"name": "A[2]", "uid": "a"}, parallelism=2)
    new = job(
        "j",
        {"kind": "union"},
        {"kind": "partition", "partitioner": "hash"},
        {"name": "A[7]", "uid": "a"},
        parallelism=2,
    )
    found = compared(tmp_path, old, new)
    assert found["data_sets"] == []
    assert [one["new"] for one in found["operators"]["renamed"]] == ["A[7]"]
    new["transformations"][3]["name"] = "B"
    (changed,) = compared(tmp_path, old, new)["data_sets"]
    assert set(changed) == {"change", "source", "target", "id"}


def test_markdown_says_the_same_and_nothing_in_it_is_acted_on(tmp_path):
    old = job("<b>@all</b> `#1` | *x* [y](z)", {"name": "A"})
    new = job("<b>@all</b> `#1` | *x* [y](z)", {"name": "B"}, {"name": "A"})
    paths = written(tmp_path / "old.jsonl", old), written(tmp_path / "new.jsonl", new)
    out = tmp_path / "said.md"
    assert run(*paths, "--format", "markdown", "--to", out)[0] == 0
    said = out.read_text(encoding="utf-8")
    assert said.startswith("### ")
    assert "\n- savepoints: " in said
    assert "added: &#39;B&#39;" in said
    assert not set("<>@`|*[]()'") & set(said)
    shown = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), said)
    assert "'<b>@all</b> `#1` | *x* [y](z)'" in shown


def test_one_topology_each_is_compared_whatever_its_name(tmp_path):
    found = compared(
        tmp_path, job("before", {"name": "Map"}), job("after", {"name": "Map"}, {"name": "More"})
    )
    assert (found["change"], [one["name"] for one in found["operators"]["added"]]) == ("changed", ["More"])


def test_the_jobs_of_two_scripts(tmp_path):
    for version, function in (("old", "lambda x: x"), ("new", "lambda x: -x")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "part.py").write_text(f"NAME = 'Map of {version}'\nmap_it = {function}\n")
        (tmp_path / version / "job.py").write_text(
            "from pyflink.datastream import StreamExecutionEnvironment\n"
            "from part import NAME, map_it\n"
            "print('not JSON')\n"
            "env = StreamExecutionEnvironment.get_execution_environment()\n"
            "env.from_collection([1, 2]).map(map_it).name(NAME).print()\n"
            "env.execute('negate')\n"
        )
    code, out, said = run(tmp_path / "old" / "job.py", tmp_path / "new" / "job.py", "--json")
    assert (code, said.splitlines()) == (0, ["not JSON"] * 2)
    (found,) = json.loads(out)["topologies"]
    assert [(one["old"], one["new"]) for one in found["operators"]["renamed"]] == [
        ("Map of old, Map", "Map of new, Map")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("required", "topology", "code"),
    [
        ("restores", "renamed", 0),
        ("restores", "broken", 6),
        ("refused", "broken", 6),
        ("restores", "mended", 0),
        ("restores", "come", 0),
    ],
)
def test_require_ends_with_6_where_a_verdict_is_worse(fleets, required, topology, code):
    assert run(fleets / "store", "--topology", topology, "--require", required)[0] == code


@pytest.mark.slow
def test_require_counts_new_inputs_that_cannot_be_read(tmp_path):
    old = written(tmp_path / "a.jsonl", FLEET[0])
    new = tmp_path / "b.jsonl"
    new.write_text(json.dumps(FLEET[0])[:-3], encoding="utf-8")
    code, _, said = run(old, new, "--require", "refused")
    assert (code, "b.jsonl: 1 more refused input without a readable name" in said) == (6, True)
    assert "1 of 1 changed topologies is worse" in said
    assert "see the reasons in the output" in said
    assert run(new, new, "--require", "restores")[0] == 0
    assert run(new, old, "--require", "restores")[0] == 0
    assert run(old, new)[0] == 0


def test_what_does_not_fit_on_the_screen_is_counted(tmp_path):
    old = [job(f"job {number:02}", {"name": "Map"}) for number in range(60)]
    new = [job(one["name"], {"name": "Map", "uid": "map"}) for one in old]
    a, b = written(tmp_path / "a.jsonl", *old), written(tmp_path / "b.jsonl", *new)
    code, out, _ = run(a, b, "--stateful", "*")
    assert code == 0
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    assert "\n60 topologies: 60 changed\n" in out
    assert out.count("loses its state") == 20
    assert "'job 19'" in out
    assert "… and 40 more differ; --json writes all" in out


def test_names_reach_no_terminal_raw(tmp_path):
    old = hostile_topology()
    new = {
        **old,
        "transformations": [{**one, "uid": f"\x1b[31m{one['id']}"} for one in old["transformations"]],
    }
    for options in ((), ("--json",)):
        code, out, _ = run(written(tmp_path / "a", old), written(tmp_path / "b", new), *options)
        assert (code, "\x1b" in out) == (0, False)


def test_inputs_that_no_name_pairs_are_counted(tmp_path):
    old = written(tmp_path / "a.jsonl", FLEET[0])
    new = tmp_path / "b.jsonl"
    new.write_text(f"{json.dumps(FLEET[0])}\nnot JSON\n{json.dumps(FLEET[0])}\n", encoding="utf-8")
    code, out, _ = run(old, new)
    assert (code, "2 refused inputs without a readable name" in " ".join(out.split())) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "A is missing"),
        (("{fleets}/old.jsonl",), 2, "only a store is compared with itself"),
        (("{fleets}/other",), 4, "has only one version"),
        (("{fleets}/store@7", "{fleets}/store"), 4, "does not have version 7"),
        (("{fleets}/store", "{fleets}/nothing"), 3, "nothing"),
        (("{fleets}/store", "{empty}"), 3, "{empty} is an empty folder"),
        (("{empty}", "{fleets}/old.jsonl"), 3, "{empty} is an empty folder"),
        (("{fleets}/store", "--topology", "no such"), 2, "has a topology 'no such'"),
        (("{fleets}/store", "--pairs", "x"), 2, "--pairs cannot be combined with"),
        (("{fleets}/store", "--to", "x"), 2, "--to needs --json, --pairs or --format markdown"),
        (("{fleets}/store", "--require", "all"), 2, "is not one of"),
    ],
)
def test_wrong_calls_are_told(fleets, tmp_path, arguments, code, said):
    given = [one.format(fleets=fleets, empty=tmp_path) for one in arguments]
    found, _, error = run(*given)
    assert found == code
    assert said.format(empty=tmp_path) in " ".join(error.replace("│", " ").split())


def test_a_store_without_an_execution_graph_is_told(fleets, tmp_path):
    penstock.plan(fleets / "old.jsonl", until="job_graph").write(tmp_path / "short")
    code, _, said = run(tmp_path / "short", fleets / "store")
    assert (code, "plan again without --until" in said) == (4, True)


@pytest.mark.slow
def test_keyed_operators_sources_and_sinks_have_state_unless_told_otherwise(tmp_path):
    keyed = ({"name": "Filter"}, {"kind": "partition", "partitioner": "hash"}, {"name": "Count"})
    old, new = job("j", *keyed), job("j", {"name": "Other"})
    new["transformations"][0]["uid"] = "another"
    sides = (written(tmp_path / "old.jsonl", old), written(tmp_path / "new.jsonl", new))

    def lost(*options):
        code, out, _ = run(*sides, "--json", *options)
        assert code == 0
        (found,) = json.loads(out)["topologies"]
        return [one["operator"] for one in found["lost"]]

    assert lost() == ["Source: In", "Count"]
    assert lost("--stateful", "*") == ["Source: In", "Filter", "Count"]
    assert lost("--stateful", "Filter") == ["Filter"]
