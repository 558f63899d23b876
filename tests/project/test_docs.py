"""What docs/ says is what the code does: keys, options, defaults, exit codes and worked examples."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from penstock.engine.commands.main import COMMANDS, EXIT_CODES, app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import ErrorKind
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.topology.flink_options import OPTIONS, FlinkOption
from penstock.plans.topology.operator_rules import (
    EDGE_RULES,
    KIND_RULES,
    NODE_RULES,
    RESOURCE_RULES,
    SETTING_RULES,
    TRANSFORMATION_RULES,
)
from penstock.plans.vocabulary import Layer

DOCS = Path(__file__).parents[2] / "docs"
TOPOLOGY_FILES = (DOCS / "topology-files.md").read_text(encoding="utf-8")
FLINK_OPTIONS = (DOCS / "flink-options.md").read_text(encoding="utf-8")
STREAM_GRAPHS = (DOCS / "stream-graphs.md").read_text(encoding="utf-8")
COMMANDS_PAGES = (DOCS / "commands.md", *sorted(DOCS.glob("commands-*.md")))
COMMANDS_PAGE = "\n".join(page.read_text(encoding="utf-8") for page in COMMANDS_PAGES)


def json_examples(page: str) -> list[Any]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def section(text: str, heading: str) -> str:
    """The text below a heading of the second level, up to the next."""
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def described_keys(text: str) -> set[str]:
    """What stands between backticks in the first cells of tables."""
    cells = re.findall(r"^\| ([^|]*)\|", text, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`([^`]+)`", cell)}


def exported(topologies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plan JSON of topologies."""
    tables = {name: from_arrow(table) for name, table in plan_in_process(topologies).tables.items()}
    return [json.loads(line) for line in to_plan_lines(tables)["line"]]


def test_every_key_of_a_topology_file_is_described():
    headings = ("Keys of a transformation", "Sinks")
    of_transformations = set().union(*(described_keys(section(TOPOLOGY_FILES, h)) for h in headings))
    assert of_transformations == set(TRANSFORMATION_RULES)
    assert set(RESOURCE_RULES) <= set(
        re.findall(r"`(\w+)`", section(TOPOLOGY_FILES, "Keys of a transformation"))
    )
    assert described_keys(section(TOPOLOGY_FILES, "Kinds of transformations")) == set(KIND_RULES)
    of_graphs = {*SETTING_RULES, *NODE_RULES, *EDGE_RULES, "nodes", "edges"}
    assert described_keys(STREAM_GRAPHS) == of_graphs


def test_every_kind_of_input_error_is_described():
    refused = section(TOPOLOGY_FILES, "Errors and refusals")
    assert described_keys(refused) == {str(kind) for kind in ErrorKind}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_every_flink_option_has_its_default_and_deprecated_keys(option: FlinkOption):
    (row,) = (line for line in FLINK_OPTIONS.splitlines() if line.startswith(f"| `{option.key}` |"))
    values, default, deprecated = (cell.strip() for cell in row.split("|")[2:5])
    assert all(f"`{value}`" in values for value in option.values)
    assert re.findall(r"`([^`]+)`", deprecated) == list(option.deprecated)
    if default.startswith("`"):
        assert option.parse(default.strip("`")) == option.default
    else:
        assert option.default in (None, -1, {})


def test_the_first_topology_can_be_planned():
    (topology,) = json_examples("topology-files.md")
    assert plan_in_process([topology]).planned == 1


def test_the_plan_in_the_docs_is_that_of_its_topology():
    refusal, topology, plan = json_examples("plan-json.md")
    assert exported([topology]) == [plan]
    (found,) = exported([{"name": "enrich", "transformations": []}])
    assert list(found) == list(refusal)


def test_every_key_of_plan_json_is_described():
    def keys(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()

    text = (DOCS / "plan-json.md").read_text(encoding="utf-8")
    topology = json_examples("topology-files.md")[0]
    placed = [
        {**t, "co_location_group": "here"} if t["kind"] == "sink" else t for t in topology["transformations"]
    ]
    (plan,) = exported([{**topology, "transformations": placed}])
    assert keys(plan) - set(re.findall(r"`(\w+)`", text)) - {"STATE_BACKEND"} == set()


def test_every_command_and_option_is_described():
    group: Any = get_command(app)
    with group.make_context("penstock", ["plan"], resilient_parsing=True) as context:
        for name in (name for commands in COMMANDS.values() for name in commands):
            _, command, _ = group.resolve_command(context, [name])
            described = section(COMMANDS_PAGE, f"penstock {name}")
            called = getattr(command, "commands", {name: command}).values()
            params = [param for one in called for param in one.params]
            options = {option for one in params for option in one.opts if option.startswith("-")}
            mentioned = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", described))
            assert options == mentioned, f"penstock {name}"


def test_every_exit_code_is_described():
    codes = set(re.findall(r"(?:^|; |: )(\d+) ", EXIT_CODES))
    assert described_keys(section(COMMANDS_PAGE, "Exit codes")) == codes


def test_every_layer_is_a_value_of_until():
    assert all(f"`{layer}`" in COMMANDS_PAGE for layer in list(Layer)[1:])


def test_every_page_is_in_the_navigation_and_short():
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert {page.name for page in DOCS.glob("*.md")} == set(re.findall(r"[\w-]+\.md", navigation))
    generated = {"passes.md", "pyflink-api.md"}
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in DOCS.glob("*.md")}
    assert [name for name in words if words[name] > 2_500 and name not in generated] == []


def test_files_that_pages_name_are_there():
    pages = [*DOCS.glob("*.md"), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md"))]
    folders = ("benchmarks", "engine", "operators", "plans", "spark-conf", "tests")
    modules = {path.name for folder in folders for path in (DOCS.parent / folder).rglob("*.py")}
    path_of = re.compile(rf"`((?:{'|'.join(folders)})/[\w./-]+)`")
    missing = [
        (page.name, path)
        for page in pages
        for path in path_of.findall(page.read_text(encoding="utf-8"))
        if not (DOCS.parent / path).exists()
    ]
    missing += [
        (page.name, name)
        for page in pages
        if page.name in ("architecture.md", "CONTRIBUTING.md") or page.name.startswith("how-")
        for name in re.findall(r"`(\w+\.py)`", page.read_text(encoding="utf-8"))
        if name not in modules
    ]
    assert not missing
