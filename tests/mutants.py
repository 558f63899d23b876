"""Change one token of the code at a time, and list the changes that no test catches: `make mutants`.

Each change is drawn with a seed from all possible ones in plans, operators and engine, and made in a copy of
the checkout in build/mutants. The nearest test files by imports run against it: those that start no JVM, then
those that use Spark. A change is caught if a test fails with it and not without it.
"""

import argparse
import ast
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("plans", "operators", "engine")
EXAMPLES = ROOT / "engine" / "examples"
NEAREST = 8  #: number of test files of each kind that run for a change
SECONDS = 300  #: limit for the tests of each kind
NONE_SELECTED = 5  #: pytest's exit code if no test has the marker
NOTICED, UNNOTICED, ENDLESS = "noticed", "unnoticed", "endless"
BROKEN_ANYWAY = "its test fails without the change too"
NOT_TRIED = "not tried"
SWAPS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+", "*": "+",
    "//": "*", "%": "*", "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=",
    "and": "or", "or": "and", "not": "", "in": "not in", "is": "is not",
    "True": "False", "False": "True", "break": "continue", "continue": "break",
}  # fmt: skip


class Mutant(NamedTuple):
    """A change: the token at `line` (from 1) and `column` of `path` becomes `new`."""

    path: str
    line: int
    column: int
    old: str
    new: str

    def applied(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        text = lines[self.line - 1]
        lines[self.line - 1] = text[: self.column] + self.new + text[self.column + len(self.old) :]
        return "".join(lines)

    def __str__(self) -> str:
        text = (ROOT / self.path).read_text(encoding="utf-8").splitlines()[self.line - 1].strip()
        return f"{self.path}:{self.line}:{self.column}: {self.old} -> {self.new or '(nothing)'}: {text}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every change of one token in `path`; some do not leave a valid program."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    ignored = {place for node in _without_effect(tree) for place in _places(node, source)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start in ignored:
            continue
        if token.type == tokenize.NUMBER and token.string.isdecimal():
            new = str(int(token.string) + 1)
        elif token.string in SWAPS and token.type in (tokenize.OP, tokenize.NAME):
            new = SWAPS[token.string]
        else:
            continue
        yield Mutant(str(path.relative_to(ROOT)), *token.start, token.string, new)


def is_program(mutant: Mutant) -> bool:
    """Whether the change leaves a valid program, unlike one of a loop's `in` or an argument's `*`."""
    try:
        ast.parse(mutant.applied((ROOT / mutant.path).read_text(encoding="utf-8")))
    except SyntaxError:
        return False
    return True


def _without_effect(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield annotations, imports, and code that only type checkers read."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as returns):
                yield returns
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom():
                yield node
            case ast.Call(func=ast.Name(id="dataclass" | "cast" | "TypeVar")):
                yield node


def _places(node: ast.AST, source: str) -> Iterator[tuple[int, int]]:
    first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
    lines = source.splitlines()
    for line in range(first, last + 1):
        start = node.col_offset if line == first else 0  # type: ignore[attr-defined]
        end = node.end_col_offset if line == last else len(lines[line - 1])  # type: ignore[attr-defined]
        yield from ((line, column) for column in range(start, end))


def imports_of(path: Path) -> set[str]:
    """Return the files of this checkout that `path` imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = set()
    for name in names:
        parts = name.removeprefix("penstock.").split(".")
        for file in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")):
            if parts[0] in (*PACKAGES, "tests") and (ROOT / file).is_file():
                files.add(str(file))
    return files


def nearest_tests(importers: dict[str, set[str]], path: str) -> list[str]:
    """Return test files that import `path`, even indirectly: the nearest first, then the smallest."""
    distances, reached = {path: 0}, [path]
    for file in reached:
        for importer in sorted(importers.get(file, ()) - distances.keys()):
            distances[importer] = distances[file] + 1
            reached.append(importer)
    folder = Path(path).parts[1]
    tests = [file for file in reached if Path(file).name.startswith("test_") and "browser" not in file]
    return sorted(tests, key=lambda file: (distances[file], folder not in file, (ROOT / file).stat().st_size))


def outcome(tree: Path, mutant: Mutant, tests: list[str]) -> str:
    """Run the tests in `tree` with the change; return NOTICED, UNNOTICED, ENDLESS or BROKEN_ANYWAY."""
    with_spark = [test for test in tests if "spark" in (ROOT / test).read_text(encoding="utf-8")]
    kinds = (("not spark and not flink and not browser", tests), ("spark", with_spark))
    for marks, selected in kinds:
        with _changed(tree, mutant):
            result = _first_failure(tree, marks, selected[:NEAREST])
        if result == ENDLESS:
            return ENDLESS
        if result is not None:
            return BROKEN_ANYWAY if _first_failure(tree, marks, [result]) else NOTICED
    return UNNOTICED


@contextmanager
def _changed(tree: Path, mutant: Mutant) -> Iterator[None]:
    file = tree / mutant.path
    original, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(mutant.applied(original), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(original, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _first_failure(tree: Path, marks: str, tests: list[str]) -> str | None:
    """Return the first test that fails (or file that cannot be imported), ENDLESS, or None."""
    if not tests:
        return None
    options = [
        "-q",
        "-x",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"--basetemp={tree}/build/pytest",
    ]
    # With bytecode: each change gets a new file time, and compiling all tests takes longer than most runs.
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "", "COLUMNS": "1000"}
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "-m", marks, *tests],
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = run.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return ENDLESS
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    if run.returncode in (0, NONE_SELECTED):
        return None
    match = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return match[1] if match else tests[0]


def _copy(number: int) -> Path:
    """Return a copy of the files of the checkout that git lists."""
    tree = ROOT / "build" / "mutants" / str(number)
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    for name in listed.splitlines():
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    (tree / "build").mkdir()
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("paths", nargs="*", default=PACKAGES, help="files or folders to change")
    parser.add_argument("--count", type=int, default=200, help="number of changes (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: 1)")
    parser.add_argument(
        "--minutes", type=float, default=180, help="time after which no change begins (default: 180)"
    )
    parser.add_argument("--processes", type=int, default=2, help="changes tried at a time (default: 2)")
    options = parser.parse_args()
    paths = [ROOT / path for path in options.paths]
    files = sorted({f for path in paths for f in (path.rglob("*.py") if path.is_dir() else [path])})
    drawn = [mutant for file in files if EXAMPLES not in file.parents for mutant in mutants_of(file)]
    random.Random(options.seed).shuffle(drawn)
    drawn = list(islice(filter(is_program, drawn), options.count))

    importers: dict[str, set[str]] = {}
    for folder in (*PACKAGES, "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            for imported in imports_of(file):
                importers.setdefault(imported, set()).add(str(file.relative_to(ROOT)))

    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.processes):
        trees.put(_copy(number))
    end = time.monotonic() + 60 * options.minutes

    def tried(mutant: Mutant) -> str:
        if time.monotonic() > end:
            return NOT_TRIED
        tree = trees.get()
        try:
            result = outcome(tree, mutant, nearest_tests(importers, mutant.path))
        finally:
            trees.put(tree)
        print(f"{result}: {mutant}", flush=True)
        return result

    with ThreadPoolExecutor(options.processes) as pool:
        results = list(pool.map(tried, drawn))
    print("", ", ".join(f"{count} {name}" for name, count in Counter(results).items()), sep="\n")
    unnoticed = [mutant for mutant, result in zip(drawn, results, strict=True) if result == UNNOTICED]
    print(*unnoticed, sep="\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
