"""What becomes of text that a terminal could obey or a reader misread."""

import ast
import itertools
import json
import re
import sys
from pathlib import Path

import pytest
from rich.table import Column

from penstock import engine
from penstock.engine.output import people
from penstock.engine.output.print_line import print_line
from penstock.engine.output.progress import progress
from penstock.plans.errors import TopologyError
from penstock.plans.printable import (
    printable,
    printable_json,
    printable_lines,
    reason_of,
    without_java_classes,
)
from penstock.plans.topology.validate_topology import parse_topology
from tests.project.hostile_text import FOREIGN_STYLE, HOSTILE, OBEYED
from tests.project.on_terminal import on_terminal


def test_a_cell_holds_no_tab_and_no_line(capsys):
    people.print_table([Column("a\tb"), Column("c")], [("1\t2\n3", ["x\t", "y"])], [("\\t", "\\")])
    assert capsys.readouterr().out == "a\\tb\tc\n1\\t2\\n3\tx\\t; y\n\\\\t\t\\\n"


def test_an_encoding_without_a_character_gets_an_escape(monkeypatch, tmp_path):
    with (tmp_path / "out").open("w", encoding="ascii") as output, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        print_line("日é")
    assert (tmp_path / "out").read_text() == "\\u65e5\\xe9\n"


def test_no_two_texts_look_alike():
    characters = ["\\", "\x1b", "x", "1", "b", "n", "\n", "\u202e", "u", "2"]
    texts = ["".join(some) for length in range(5) for some in itertools.product(characters, repeat=length)]
    assert len(set(map(printable, texts))) == len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Source: a -> Map",
        "C:\\dir",
        "日本語 한국어 العربية עברית हिन्दी ไทย می‌خواهم",
        "👩‍👩‍👧 ❤️ 👍🏽",
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",
        "e\u0301 \xa0 [a] {b} $c",
    ],
)
def test_ordinary_text_stays(text):
    assert printable(text) == printable_lines(text) == text


def test_messages_keep_their_lines_and_quoted_escapes():
    assert printable_lines("a\n  hint: 'b\\x1b'\x1b\r") == "a\n  hint: 'b\\x1b'\\x1b\\r"


def test_json_means_the_same():
    for text in (HOSTILE, "\U000e0041\x7f", "plain", "日本"):
        written = printable_json(json.dumps({"a": text}, ensure_ascii=False))
        assert OBEYED.findall(written) == []
        assert json.loads(written) == {"a": text}


ROOT = Path(engine.__file__).resolve().parents[1]


@pytest.mark.slow
def test_nothing_else_prints():
    """Whatever speaks to people goes through engine.output, which escapes it."""
    allowed = {
        "engine/commands/skip_typers_checks.py",  # escapes the docstring of a command
        "engine/output/people.py",
        "engine/output/print_line.py",
        "engine/output/progress.py",  # Rich's bar, of printable text
        "engine/run/runtime/job_monitor.py",  # Rich's bars, of printable names
        "engine/measure/bench/measure_planner.py",  # JSON for the process that started it
        "plans/frames/compiled.py",  # one line that names nothing foreign
    }
    found = []
    for path in [*ROOT.glob("engine/**/*.py"), *ROOT.glob("plans/**/*.py")]:
        name = path.relative_to(ROOT).as_posix()
        if name in allowed or name.startswith("engine/examples/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Call) and _prints(node):
                found.append(f"{name}:{node.lineno}")
    assert found == []


def _prints(node: ast.ImportFrom | ast.Call) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in ("rich.console", "rich.markup") or node.module == "rich" or (
            node.module == "rich.table" and any(alias.name == "Table" for alias in node.names)
        )  # fmt: skip
    called = ast.unparse(node.func)
    return called in ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write")


PROGRESS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


def test_progress_shows_names_as_they_are(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "3000")
    clock = itertools.count(0, 2.0)
    monkeypatch.setattr("penstock.engine.output.progress.time.monotonic", lambda: next(clock))

    def show() -> None:
        with progress(2) as report:
            report(f"one {HOSTILE}")
            report("two [red]")

    with monkeypatch.context() as patch:
        said = on_terminal(show, patch, "stderr")
    plain = PROGRESS.sub("", said.replace(FOREIGN_STYLE, "obeyed"))
    assert OBEYED.findall(plain) == []
    assert "obeyed" not in plain
    assert "[bold]x[/bold]" in plain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("java.net.URISyntaxException: Relative path: a:b", "URI syntax: Relative path: a:b"),
        ("java.io.FileNotFoundException: /x", "file not found: /x"),
        ("org.apache.spark.SparkException: Job aborted: java.io.IOException: full", "Job aborted: full"),
        ("java.lang.NullPointerException", "null pointer"),
        ("java.lang.ArithmeticException: / by zero", "arithmetic error: / by zero"),
        ("org.x.Outer$InnerException: y", "inner error: y"),
        ("java.io.IOException", "IO error"),
        ("scala.MatchError: z", "match error: z"),
        ("mypkg.checks.ValidationError: bad row", "mypkg.checks.ValidationError: bad row"),
        ("jobs.java.io.OrderError: 1", "jobs.java.io.OrderError: 1"),
        ("my.package.value is not an Exception", "my.package.value is not an Exception"),
    ],
)
def test_exceptions_of_java_are_said_in_words(text, said):
    assert without_java_classes(text) == said


def test_bytes_that_are_not_utf8_are_said_by_their_place():
    with pytest.raises(UnicodeDecodeError) as wrong:
        b"abc\xff".decode()
    assert reason_of(wrong.value) == "byte 3 is not UTF-8"
    assert [reason_of(ValueError(text)) for text in ("first\nsecond", "")] == ["first", "ValueError"]
    refused = parse_topology(b'"\xe9"')
    assert isinstance(refused, TopologyError)
    assert "(byte 1 is not UTF-8)" in refused.message
