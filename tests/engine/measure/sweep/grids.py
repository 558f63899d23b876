"""A grid, planners and topologies to sweep, and the command."""

from typing import Any

from typer.testing import CliRunner

from penstock.engine.commands.main import app

GRID = """
topologies:
  - shape: [random, layered]
    operators: [8, 20]
    seed: 3
  - file: given.jsonl
options:
  taskmanager.numberOfTaskSlots: [1, 4]
planners: [flink, penstock.engine.examples.chain_equal_costs:chain]
costs: drawn
"""
PLANNERS = """
import os
import penstock

@penstock.decides("chaining")
def raises(stream_edges):
    raise RuntimeError("no idea")

@penstock.decides("chaining")
def ends(stream_edges):
    print('{"done": true, "result": {"planned": 7}, "failure": null}', flush=True)
    os._exit(3)
"""


def topology(name: str, parallelism: int | None = None) -> dict[str, Any]:
    rows = [
        {"id": 1, "kind": "source", "name": "read"},
        {"id": 2, "kind": "one_input", "name": "map", "inputs": [1]},
        {"id": 3, "kind": "sink", "name": "write", "inputs": [2]},
    ]
    given = {} if parallelism is None else {"parallelism": parallelism}
    return {"name": name, **given, "transformations": rows}


def run(*arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["sweep", *arguments])
    return ran.exit_code, ran.stdout, ran.stderr
