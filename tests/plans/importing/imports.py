"""`penstock import` called, and what it writes in short."""

import json

from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.layers import PlanOptions
from penstock.plans.vocabulary import Layer


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def imported(*arguments):
    """The topologies that import writes; each can be planned."""
    code, written, _ = run("import", *arguments)
    assert code == 0
    topologies = [json.loads(line) for line in written.splitlines()]
    assert plan_in_process(topologies, PlanOptions(Layer.JOB_GRAPH)).planned == len(topologies)
    return topologies


def operators(topology):
    """What is shared by all forms: kind, name and where from, of each operator."""
    found = {one["id"]: one for one in topology["transformations"]}

    def reads(number):
        one = found[number]
        if one["kind"] in ("union", "partition", "side_output"):
            label = one.get("partitioner", one.get("tag"))
            return [f"{name} {label}" if label else name for i in one["inputs"] for name in reads(i)]
        return [one["name"]]

    return [
        (one["kind"], one["name"], [name for i in one.get("inputs", []) for name in reads(i)])
        for one in found.values()
        if "name" in one
    ]


DIAMOND = [
    ("source", "a", []),
    ("one_input", "b", ["a hash"]),
    ("one_input", "c", ["a"]),
    ("two_input", "d", ["b", "c"]),
    ("sink", "e", ["d"]),
]
