"""Pages of docs/ and names of `penstock` that follow from code: `python -m tests.reference_pages docs`."""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.engine.configuration.cluster_options import Reader, option_text
from penstock.engine.configuration.merge_settings import OPTIONS
from penstock.plans import vocabulary as vocabulary_module
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.passes import PASSES
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import COMMENT, type_name
from penstock.plans.tables.view_columns import view_columns
from penstock.plans.vocabulary import Layer
from tests.passes.fixtures import RULES, read_cases

WRITTEN = "Written by `make docs`; a test compares it with the code."


def reference_pages() -> dict[str, str]:
    """File name to the text of each generated page."""
    return {
        "tables.md": tables_page(),
        "tables-job-graph.md": later_tables_page(),
        "vocabulary.md": vocabulary_page(),
        "passes.md": passes_page(),
        "options.md": options_page(),
        "inside-spark.ipynb": notebook(),
        "../penstock/__init__.py": public_module(),
    }


ROOT = Path(__file__).parents[1]
LIBRARY = "penstock.engine.library."


def public_module() -> str:
    """`penstock`, whose two lists of names have those in `__all__` of the library's modules."""
    text = (ROOT / "penstock" / "__init__.py").read_text(encoding="utf-8")
    names = {
        (f"{LIBRARY}{file.stem}", name)
        for file in (ROOT / "engine" / "library").glob("*.py")
        for name in _all_of(file)
    }
    imports = re.findall(r"^    from (\S+) import (\w+) as \2\n", text, re.MULTILINE)
    listed = re.findall(r'^    "(\w+)": "(\S+)",\n', text, re.MULTILINE)
    imports = sorted(names | {(module, name) for module, name in imports if not module.startswith(LIBRARY)})
    listed = sorted(
        {(name, module) for module, name in names}
        | {(name, module) for name, module in listed if not module.startswith(LIBRARY)}
    )
    written = "".join(f"    from {module} import {name} as {name}\n" for module, name in imports)
    text = re.sub(r"(?<=if TYPE_CHECKING:\n)(    from .*\n)+", written, text)
    written = "".join(f'    "{name}": "{module}",\n' for name, module in listed)
    return re.sub(r"(?<=_MODULES = \{\n)(    \"\w+\": .*\n)+", written, text)


def _all_of(file: Path) -> list[str]:
    """The names in `__all__` of a module, which is not imported; none without it."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


LAYER_OF = {table: layer for layer, tables in LAYER_TABLES.items() for table in tables}
FIRST_PAGE = (Layer.TOPOLOGY, Layer.STREAM_GRAPH)


def tables_page() -> str:
    """The list of tables, and the tables up to the StreamGraph with every column, in Markdown."""
    lines = [
        "# Tables",
        "",
        WRITTEN,
        "",
        "Keys are integers. `topology_id`, the xxhash64 of the topology's name, is part of every key. Types",
        "have Spark's names. In a store, each table also has the column `write_id`, which is equal for all",
        "rows of a version. In [SQL](sql.md) each table is a view of the same name without `write_id`;",
        "columns with another name in SQL show it under *in SQL*. If the meaning of a column names an enum,",
        "such as ResultPartitionType, [Vocabulary](vocabulary.md) lists its values.",
        "",
        "| layer | tables |",
        "|---|---|",
    ]
    layers: dict[str, list[str]] = {}
    for table in TABLES:
        page = "" if _is_on_first_page(table) else "tables-job-graph.md"
        layers.setdefault(LAYER_OF.get(table, "(none)"), []).append(f"[`{table}`]({page}#{table})")
    lines += [f"| {layer} | {', '.join(links)} |" for layer, links in layers.items()]
    return "\n".join([*lines, *_columns_of(filter(_is_on_first_page, TABLES))]) + "\n"


def later_tables_page() -> str:
    """The tables from the JobGraph on with every column, in Markdown."""
    lines = ["# Tables from the JobGraph on", "", WRITTEN, "", "[Tables](tables.md) lists all tables."]
    return "\n".join([*lines, *_columns_of(table for table in TABLES if not _is_on_first_page(table))]) + "\n"


def _is_on_first_page(table: str) -> bool:
    return table == "rejected" or LAYER_OF.get(table) in FIRST_PAGE


def _columns_of(tables: Iterable[str]) -> Iterator[str]:
    for table in tables:
        yield from ("", f"## {table}", "")
        if table in LAYER_OF:
            yield from (f"Layer: {LAYER_OF[table]}.", "")
        yield from ("| column | in SQL | type | null | meaning |", "|---|---|---|---|---|")
        for column in TABLES[table]:
            yield (
                f"| `{column.name}` | {_other_name(column.name, view_columns(table)[column.name])} "
                f"| {cell(type_name(column.type)).replace(',', ', ')} | {'yes' if column.nullable else ''} "
                f"| {cell(column.metadata[COMMENT].decode())} |"
            )


def vocabulary_page() -> str:
    """The closed vocabularies of a plan, with who reads each and the columns that hold its values."""
    lines = [
        "# Vocabulary",
        "",
        WRITTEN,
        "",
        "The enums of a plan under Flink's names, in the order of [the layers](how-planning-works.md).",
        "Each entry names the [pass](passes.md) that reads it and the columns of [tables](tables.md) with",
        "its values; each value has its effect. Values that Flink has, too, have Flink's names.",
    ]
    for name, vocabulary in vars(vocabulary_module).items():
        if inspect.isclass(vocabulary) and vocabulary.__module__ == vocabulary_module.__name__:
            lines += ["", f"## {name}", "", *(inspect.getdoc(vocabulary) or "").split("\n"), *_held_by(name)]
            lines += ["", "| value | meaning |", "|---|---|"]
            lines += [f"| `{value}` | {cell(meaning)} |" for value, meaning in _meanings(vocabulary)]
    return "\n".join([*lines, *_reasons_against_chaining()]) + "\n"


def _held_by(vocabulary: str) -> list[str]:
    """The columns whose comments name a vocabulary, as a paragraph."""
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
        "Reasons without an entry in the last column follow from a job's computation, and",
        "[`penstock explain --what-if`](commands-look.md#penstock-explain) refuses them.",
        *_held_by("NotChainableReason"),
        "",
        "| value | meaning | change by `--what-if` |",
        "|---|---|---|",
    ]
    for reason in NotChainableReason:
        change = reason.record.what_if
        lines.append(f"| `{reason}` | {cell(reason.record.meaning)} | {change.meaning if change else ''} |")
    return lines


def _meanings(vocabulary: type) -> list[tuple[str, str]]:
    """Each value of an enum with the comment beside it."""
    return re.findall(r'"([^"\n]+)"  #: (.+)', inspect.getsource(vocabulary))


def _other_name(stored: str, in_sql: str) -> str:
    return "" if stored == in_sql else f"`{in_sql}`"


def passes_page() -> str:
    """The list of passes, each with its example, in Markdown."""
    lines = [
        "# Passes",
        "",
        WRITTEN,
        "",
        "In the order of planning. Tables without a class of Flink only serve later passes.",
        "",
        "| layer | produces | reads | guarantees | Flink |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {entry.layer} | `{entry.produces}` | {', '.join(f'`{name}`' for name in entry.reads)} "
        f"| {cell(entry.guarantees)} | {', '.join(f'`{name}`' for name in entry.flink.split(', ') if name)} |"
        for entry in PASSES
    ]
    lines += [
        "",
        "## Examples",
        "",
        "Inputs of a pass, and after `->` its output, in some of their columns. Each example is a case of",
        "the named file, whose cases the tests run.",
    ]
    for entry in RULES:
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


def options_page() -> str:
    """Every option of the configuration with its default, in Markdown."""
    headings = {
        Reader.JOBS: "Jobs: defaults of topologies and scripts that do not set them",
        Reader.CLUSTER: "The cluster that jobs are planned for",
        Reader.RUNS: "Running jobs",
    }
    lines = ["# Options", "", WRITTEN, "", "[Configuration](configuration.md) names the sources of values."]
    for reader, heading in headings.items():
        lines += ["", f"## {heading}", "", "| key | default | values | meaning |", "|---|---|---|---|"]
        for option in (option for option in OPTIONS if option.reader is reader):
            keys = f"`{option.key}`"
            if option.deprecated:
                keys += f" (deprecated: {', '.join(f'`{key}`' for key in option.deprecated)})"
            default = cell(option_text(option, option.default))
            lines.append(f"| {keys} | {default} | {cell(option.allowed)} | {cell(option.meaning)} |")
    return "\n".join(lines) + "\n"


def notebook() -> str:
    """The pages "Inside a Spark job" and on types as a notebook that begins with a session of its own."""
    docs = Path(__file__).parents[1] / "docs"
    page = (docs / "inside-spark.md").read_text(encoding="utf-8")
    page += "\n#" + (docs / "spark-types.md").read_text(encoding="utf-8")
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
    """Text that ends no cell and opens no tag."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


if __name__ == "__main__":
    for name, text in reference_pages().items():
        Path(sys.argv[1], name).write_text(text, encoding="utf-8")
