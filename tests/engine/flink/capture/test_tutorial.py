"""The tutorial of docs/capturing.md: its commands, as they are written there, print what is shown."""

import re
from pathlib import Path

import pytest

from tests.project.test_doc_examples import examples, in_a_shell, words

pytestmark = pytest.mark.flink

PAGE = "docs/capturing.md"
LOST_STATE = 6  #: what `diff --require` ends with


def test_three_jobs_from_capture_to_the_verdict_on_their_state(tmp_path):
    text = (Path(__file__).parents[4] / PAGE).read_text(encoding="utf-8")
    script = re.search(r'^```sql title="orders.sql"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    assert script is not None
    (tmp_path / "orders.sql").write_text(script[1])
    commands = list(examples(PAGE))
    begin = next(place for place, (command, _) in enumerate(commands) if "orders.sql" in command)
    for command, shown in commands[begin:]:
        ends = LOST_STATE if "--require" in command else 0
        run = f"{command.strip()}; [ $? -eq {ends} ]"
        found = words(in_a_shell(run, tmp_path))
        assert all(part in found for part in map(words, shown.split("…"))), (command, found)
    assert "<svg" in (tmp_path / "revenue.svg").read_text()
