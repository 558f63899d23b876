"""Savepoint verdicts: what `penstock diff --pairs` writes.

pairs.jsonl.gz has lines `{"pair", "expected", "last_state"}`: Flink 2.3.0's answers when the state of the
pair's old job is restored in the new one, from a savepoint and without one. Where one uid hash is in two
vertices, a message holds an object's number in a JVM. `last_state` is left out where Flink names one of
several tasks.
"""

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.views.diff import savepoint_verdicts as read_pairs
from penstock.engine.views.diff.savepoint_verdicts import (
    Pair,
    RestoreFrom,
    RestoreResult,
    Verdict,
    savepoint_verdicts,
)
from penstock.plans.restore_savepoint import in_map_order

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def golden():
    with gzip.open(HERE / "pairs.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


_NUMBER_OF_AN_OBJECT = re.compile("ExecutionJobVertex@[0-9a-f]+")


def comparable(line):
    return json.loads(_NUMBER_OF_AN_OBJECT.sub("ExecutionJobVertex", line))


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def operators(*kinds, **settings):
    """A chain of these kinds, each with a uid; `settings` are the topology's."""
    made = [
        {"id": i, "kind": kind, "name": kind, "uid": f"uid {i}", **({"inputs": [i - 1]} if i > 1 else {})}
        for i, kind in enumerate(kinds, 1)
    ]
    return {"name": "t", "transformations": made, **settings}


JOB = operators("source", "one_input", "sink")


def verdict(old, new, stateful=None) -> RestoreResult:
    return next(iter(savepoint_verdicts([Pair("p", old, new, stateful)])))


def message(failure):
    assert failure is not None
    return failure.message


def matched(pattern, text):
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None
    return found[1]


def written(folder, *pairs):
    file = folder / "pairs.jsonl"
    file.write_text("".join(f"{pair if isinstance(pair, str) else json.dumps(pair)}\n" for pair in pairs))
    return file


def test_verdicts_and_messages_are_flinks(golden, tmp_path, monkeypatch):
    monkeypatch.setattr(read_pairs, "BYTES_OF_A_PART", 100_000)
    pairs, out = tmp_path / "pairs.jsonl.gz", tmp_path / "out.jsonl"
    with gzip.open(pairs, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line['pair'])}\n" for line in golden)
    code, nothing, said = run("diff", "--pairs", pairs, "--to", out)
    assert (code, nothing) == (0, "")
    assert said.startswith(f"{len(golden)} pairs: ")
    found = [comparable(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert found == [comparable(json.dumps(line["expected"])) for line in golden]
    assert sum("ExecutionJobVertex" in json.dumps(line) for line in found) > 2


def test_verdicts_without_a_savepoint_are_flinks(golden, tmp_path):
    lines = [line for line in golden if "last_state" in line]
    pairs, out = written(tmp_path, *(line["pair"] for line in lines)), tmp_path / "out.jsonl"
    code, _, said = run("diff", "--pairs", pairs, "--from", "last-state", "--to", out)
    found = [comparable(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert (code, f"{len(lines)} pairs: " in said) == (0, True)
    assert found == [comparable(json.dumps(line["last_state"])) for line in lines]
    assert sum("There is no operator for the state" in json.dumps(line) for line in found) > 100


def test_without_a_savepoint_every_operator_has_to_be_found():
    """An operator without state is moved: a savepoint restores, the last state does not."""
    old, new = operators("source", "one_input", "sink"), operators("source", "one_input", "sink")
    del old["transformations"][1]["uid"]
    new["transformations"][1]["uid"] = "other"
    pair = Pair("p", old, new, frozenset({1, 3}))
    (savepoint,) = savepoint_verdicts([pair])
    (last_state,) = savepoint_verdicts([pair], source=RestoreFrom.LAST_STATE)
    assert (savepoint.verdict, last_state.verdict) == (Verdict.RESTORES, Verdict.REFUSED)
    assert "There is no operator for the state" in message(last_state.last_state)


def test_a_derived_max_parallelism_never_hinders_a_given_one_does():
    wide = operators("source", "one_input", "sink", parallelism=100)
    assert verdict(JOB, wide).verdict == Verdict.RESTORES
    given = operators("source", "one_input", "sink", max_parallelism=256)
    refused = verdict(JOB, given)
    assert refused.verdict == Verdict.REFUSED
    assert "max parallelism 128 to new program with max parallelism 256" in message(refused.strict)


def test_more_subtasks_than_the_old_max_parallelism_are_refused():
    refused = verdict(JOB, operators("source", "one_input", "sink", parallelism=200))
    assert refused.verdict == Verdict.REFUSED
    assert "The maximum parallelism (128) of the restored state is lower" in message(
        refused.allow_non_restored
    )


def test_state_that_no_operator_takes_is_lost_or_refused():
    shorter = operators("source", "one_input")
    assert verdict(JOB, shorter).verdict == Verdict.ALLOW_NON_RESTORED
    assert verdict(JOB, shorter, frozenset({1, 2, 99})).verdict == Verdict.RESTORES
    assert verdict(JOB, shorter, frozenset()).verdict == Verdict.RESTORES


def test_a_uid_hash_finds_the_state_of_an_operator_that_lost_its_id():
    new = json.loads(json.dumps(JOB))
    new["transformations"][1]["uid"] = "another"
    lost = verdict(JOB, new).strict
    operator_id = matched(r"operator ([0-9a-f]{32}) to", message(lost))
    new["transformations"][1]["uid_hash"] = operator_id
    assert verdict(JOB, new).verdict == Verdict.RESTORES


def test_of_two_topologies_that_flink_refuses_the_old_one_is_named():
    twice = operators("source", "one_input", "sink")
    for operator in twice["transformations"]:
        operator["uid"] = "same"
    auto = operators("source", "sink", config={"pipeline.auto-generate-uids": "false"})
    del auto["transformations"][0]["uid"]
    for old, new, named in ((twice, auto, "same"), (auto, twice, "Auto generated"), (JOB, twice, "same")):
        found = verdict(old, new)
        assert (found.verdict, named in message(found.unplanned)) == (Verdict.NOT_PLANNED, True)


def test_a_map_of_java_orders_ids_by_their_spread_hash_and_grows():
    ids = [f"{number:032x}" for number in (33, 1, 32, 0, 1 << 16)]
    assert [int(one, 16) for one in in_map_order(ids, str, 16)] == [32, 0, 33, 1, 1 << 16]
    assert [int(one, 16) for one in in_map_order(ids, str, 1)] == [32, 0, 33, 1, 1 << 16]


@pytest.mark.parametrize(
    ("require", "old", "new", "code"),
    [
        ("restores", JOB, JOB, 0),
        ("restores", JOB, operators("source"), 6),
        ("allow-non-restored", JOB, operators("source"), 0),
        ("allow-non-restored", JOB, operators("source", "sink", max_parallelism=2), 6),
        ("allow-non-restored", {"name": "wrong", "transformations": []}, JOB, 6),
    ],
)
def test_a_verdict_that_is_worse_than_required_ends_with_6(require, old, new, code, tmp_path):
    pairs = written(tmp_path, {"name": "\x1b[31mred", "old": old, "new": new})
    ended, out, said = run("diff", "--pairs", pairs, "--require", require)
    assert (ended, len(out.splitlines())) == (code, 1)
    assert ("worse than --require" in said, "\x1b" in said) == (code == 6, False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "an object with old and new"),
        ({"old": JOB}, "new must be a topology, got nothing"),
        ({"old": 1, "new": JOB}, "old must be a topology, got a value of another kind"),
        ({"old": JOB, "new": JOB, "stateful": ["1"]}, "stateful, if given, must be a list of ids"),
        ({"old": JOB, "new": JOB, "name": 1}, "name must be text"),
    ],
)
def test_a_line_that_is_no_pair_is_named_and_nothing_is_written(line, said, tmp_path):
    good = {"name": "p", "old": JOB, "new": JOB}
    out = tmp_path / "out.jsonl"
    code, _, message = run("diff", "--pairs", written(tmp_path, good, "", line, line), "--to", out)
    assert (code, out.exists()) == (3, False)
    assert all(part in message for part in (said, "line 3 of", "line 4 of"))


def test_a_file_without_pairs_and_one_that_is_not_there_are_errors_of_input(tmp_path):
    assert run("diff", "--pairs", written(tmp_path, ""))[0] == 3
    assert run("diff", "--pairs", tmp_path / "missing.jsonl")[0] == 3


def test_the_transcript_in_the_docs(tmp_path, monkeypatch):
    page = (HERE.parents[2] / "docs" / "savepoints.md").read_text(encoding="utf-8")
    given = matched(r"```json\n(.*?)```", page)
    monkeypatch.chdir(tmp_path)
    Path("clicks.json").write_text(given, encoding="utf-8")
    transcripts = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    for transcript in transcripts:
        command, *lines = transcript.splitlines()
        code, out, said = run(*command.split()[2:])
        assert (code, (out + said).splitlines()) == (6, lines)
    assert len(transcripts) == 2
