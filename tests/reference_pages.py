"""Write the pages of docs/ that follow from the code: `python -m tests.reference_pages docs`."""

import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

from penstock.plans import vocabulary as vocabulary_module
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.passes import PASSES
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import COMMENT, type_name
from penstock.plans.tables.view_columns import view_columns
from tests.passes.fixtures import read_cases

WRITTEN = "Written by `make docs`; a test compares it with the code."


def reference_pages() -> dict[str, str]:
    """Return the text of each generated page by file name."""
    return {
        "tables.md": tables_page(),
        "vocabulary.md": vocabulary_page(),
        "passes.md": passes_page(),
        "inside-spark.ipynb": notebook(),
    }


def tables_page() -> str:
    """Return every table and column of a plan, in Markdown."""
    layer_of = {table: layer for layer, tables in LAYER_TABLES.items() for table in tables}
    lines = [
        "# Tables",
        "",
        WRITTEN,
        "",
        "Keys are integers. `topology_id`, the xxhash64 of the topology's name, is part of every key. Types",
        "are named as Spark names them. In a store, each table also has the column `write_id`: the rows of",
        "one version share it. In [SQL](sql.md) each table is a view of the same name without `write_id`;",
        "columns with another name in SQL show it under *in SQL*. If the meaning of a column names an enum,",
        "such as ResultPartitionType, [Vocabulary](vocabulary.md) lists what it may hold.",
    ]
    for table, columns in TABLES.items():
        layer = f"Layer: {layer_of[table]}." if table in layer_of else ""
        lines += ["", f"## {table}", ""]
        lines += [layer, ""] if layer else []
        lines += ["| column | in SQL | type | null | meaning |", "|---|---|---|---|---|"]
        lines += [
            f"| `{column.name}` | {_other_name(column.name, view_columns(table)[column.name])} "
            f"| {cell(type_name(column.type))} | {'yes' if column.nullable else ''} "
            f"| {cell(column.metadata[COMMENT].decode())} |"
            for column in columns
        ]
    return "\n".join(lines) + "\n"


def vocabulary_page() -> str:
    """Return the closed vocabularies of a plan, with the readers and the columns of each."""
    lines = [
        "# Vocabulary",
        "",
        WRITTEN,
        "",
        "The enums of a plan under Flink's names, in the order of [the layers](how-planning-works.md).",
        "Each says which [pass](passes.md) reads it and which columns of [the tables](tables.md) hold it;",
        "each value says what follows from it. Values that Flink has, too, are Flink's.",
    ]
    for name, vocabulary in vars(vocabulary_module).items():
        if inspect.isclass(vocabulary) and vocabulary.__module__ == vocabulary_module.__name__:
            lines += ["", f"## {name}", "", *(inspect.getdoc(vocabulary) or "").split("\n"), *_held_by(name)]
            lines += ["", "| value | meaning |", "|---|---|"]
            lines += [f"| `{value}` | {cell(meaning)} |" for value, meaning in _meanings(vocabulary)]
    return "\n".join([*lines, *_reasons_against_chaining()]) + "\n"


def _held_by(vocabulary: str) -> list[str]:
    """Return the columns whose comments name a vocabulary, as a paragraph."""
    columns = [
        f"`{table}.{column.name}`"
        for table, columns in TABLES.items()
        for column in columns
        if re.search(rf"\b{vocabulary}\b", column.metadata[COMMENT].decode())
    ]
    return ["", *textwrap.wrap(f"Columns: {', '.join(columns)}.", 110)] if columns else []


def _reasons_against_chaining() -> list[str]:
    lines = [
        "",
        "## NotChainableReason",
        "",
        (inspect.getdoc(NotChainableReason) or "").split("\n")[0],
        "Reasons without an entry in the last column follow from what a job computes, and",
        "[`penstock explain --what-if`](commands.md#penstock-explain) refuses them.",
        *_held_by("NotChainableReason"),
        "",
        "| value | meaning | what `--what-if` changes |",
        "|---|---|---|",
    ]
    for reason in NotChainableReason:
        change = reason.record.what_if
        lines.append(f"| `{reason}` | {cell(reason.record.meaning)} | {change.meaning if change else ''} |")
    return lines


def _meanings(vocabulary: type) -> list[tuple[str, str]]:
    """Return each value of an enum with the comment next to it."""
    return re.findall(r'"([^"\n]+)"  #: (.+)', inspect.getsource(vocabulary))


def _other_name(stored: str, in_sql: str) -> str:
    return "" if stored == in_sql else f"`{in_sql}`"


def passes_page() -> str:
    """Return the list of passes, each with its example, in Markdown."""
    lines = [
        "# Passes",
        "",
        WRITTEN,
        "",
        "In the order of planning. Each is implemented twice: by joins and windows on Spark, and over",
        "columns in one process. *Reads* are the tables that the result follows from.",
        "",
        "| layer | produces | reads | guarantees | Flink |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {entry.layer} | `{entry.produces}` | {', '.join(f'`{name}`' for name in entry.reads)} "
        f"| {cell(entry.guarantees)} | {', '.join(f'`{name}`' for name in entry.flink.split(', '))} |"
        for entry in PASSES
    ]
    lines += [
        "",
        "## Examples",
        "",
        "Tables that a pass reads, and after `->` the one that it produces, in some of their columns. Each",
        "example is a case of the named file, whose cases the tests run through both planners.",
    ]
    for entry in PASSES:
        case = read_cases(entry.produces)[0]
        sentence = f"{case.title[0].upper()}{case.title[1:]} (tests/passes/fixtures/{entry.produces}.txt)."
        lines += [
            "",
            f"### {entry.produces}",
            "",
            cell(sentence),
            "",
            "```text",
            case.example(entry.reads),
            "```",
        ]
    return "\n".join(lines) + "\n"


def notebook() -> str:
    """Return the page "Inside a Spark job" as a notebook that begins with its own session."""
    page = (Path(__file__).parents[1] / "docs" / "inside-spark.md").read_text(encoding="utf-8")
    title, _, rest = page.partition("\n\n")
    session = (
        "from pyspark.sql import SparkSession\n\n"
        'spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()'
    )
    texts = [("markdown", title), ("code", session)]
    for number, text in enumerate(re.split(r"^```python\n(.*?)^```$", rest, flags=re.MULTILINE | re.DOTALL)):
        if text.strip():
            texts.append(("code" if number % 2 else "markdown", text.strip("\n")))
    cells: list[dict[str, object]] = [
        {
            "cell_type": kind,
            **({"execution_count": None, "outputs": []} if kind == "code" else {}),
            "id": f"cell-{number}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        for number, (kind, text) in enumerate(texts)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def cell(text: str) -> str:
    """Return text that ends no cell and opens no tag."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


if __name__ == "__main__":
    for name, text in reference_pages().items():
        Path(sys.argv[1], name).write_text(text, encoding="utf-8")
