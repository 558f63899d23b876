"""Phrases that a native technical writer would not use, found in docs, docstrings, comments and messages.

`python -m tests.project.plain_words FOLDER_OR_FILE …` lists them.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

_AMOUNT = (
    "rows?|lists?|lines?|objects?|entry|entries|one|blocks?|calls?|bytes?|columns?|counts?"
    "|clusters?|buffers|MiB"
)
_THING = (
    "row|vertex|topology|node|edge|task|slot|operator|subtask|job|file|line|table|key|record|batch|block|process|"
    "group|worker|partition|version|member|cluster|result|gate|channel|shape|layer|column|pass|step|window"
)

BETTER: dict[str, str] = {
    r"\bin the place of\b": "instead of, or in place of",
    r"\bbehind\b": "after, or below (left behind is fine)",
    rf"\b({_AMOUNT}) an? ({_THING})\b(?! (\w+s|may|had|can)\b)": "one row per vertex",
    r"\bso many\b(?! (that|as)\b)": "this many, that many, or the number itself",
    r"\bwhoever\b": "the caller, the reader, the one who",
    r"\bdear(er|est|ly)?\b": "expensive, costly",
    r"\b(its|this|that|their|half the) price\b|\bthe price of (?!an? (auction|bid))": "cost",
    r"(?:^|[.:;] )Of (few|many|several|such) ": "say the subject first",
    r"\b(string|boolean|number|value|line|one|it|what|that|which) is (?-i:none)\b": "say what it is",
    r"\b(come|comes|came|coming) upon\b": "meet, find, reach",
    r"\bwhat stands there\b": "the value, the content",
    r"\bSPEC,? sections?\b": "the page of docs/ that says it",
}
"""Pattern to what to write instead: habits that reviews have found, as far as a pattern can tell."""

_PATTERNS = {re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE): BETTER[pattern] for pattern in BETTER}
_LEFT_OUT = re.compile(
    r"^```.*?^```|`[^`\n]*`|\b(?:leav(?:e|es|ing)|left)(?: \w+){0,3} behind\b", re.MULTILINE | re.DOTALL
)
"""Code, and the one right use of behind."""
_JAVA_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def clumsy_phrases(paths: list[Path]) -> Iterator[str]:
    """`file:line: phrase (better)` for each phrase of BETTER in the prose of these files and folders."""
    for path in _files(paths):
        for line, words in _prose(path):
            for pattern, better in _PATTERNS.items():
                for found in pattern.finditer(words):
                    at = line + words[: found.start()].count("\n")
                    phrase = " ".join(found.group().split())
                    yield f"{path.relative_to(ROOT)}:{at}: {phrase!r} ({better})"


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (
            file
            for file in inside
            if file.suffix in (".py", ".md", ".java") and not file.match("*plain_words.py")
        )


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Each piece of text that people read, with the number of its first line."""
    text = path.read_text(encoding="utf-8")
    if not any(pattern.search(text) for pattern in _PATTERNS):  # takes a tenth of tokenizing
        return
    if path.suffix == ".md":
        yield 1, _LEFT_OUT.sub(_blank, text)
    elif path.suffix == ".java":
        yield from ((1 + text[: c.start()].count("\n"), c.group()) for c in _JAVA_COMMENT.finditer(text))
    else:
        yield from _python_prose(text)


def _python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Comments, and strings of several words: docstrings and messages."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type in _STRINGS and " " in token.string.strip()):
            yield token.start[0], _LEFT_OUT.sub(_blank, token.string)


_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def _blank(found: re.Match[str]) -> str:
    """As many lines without words, so that later ones keep their numbers."""
    return "\n" * found.group().count("\n")


if __name__ == "__main__":
    print(*clumsy_phrases([Path(name).resolve() for name in sys.argv[1:]]), sep="\n")
