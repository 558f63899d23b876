"""Quality of plans for a person at a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column

from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.planning.tell_metrics import number
from penstock.plans.metrics.plan_metrics import MODEL_ERROR


def print_quality(cases: Sequence[Mapping[str, Any]]) -> None:
    """Speed of each planner, then for each pair the metrics whose values differ."""
    left = ("suite", "planner")
    named = ("suite", "topologies", "operators", "planner", "planning s", "metrics s", "planned", "rejected")
    columns = [Column(n, justify="left" if n in left else "right", no_wrap=n not in left) for n in named]
    print_table(columns, [
        (
            case["suite"], f"{case['inputs']:,}", f"{case['operators']:,}", row["planner"],
            f"{row['planning_seconds']:.2f}", f"{row['metrics_seconds']:.2f}",
            f"{row['planned']:,}", f"{row['rejected']:,}",
        )
        for case in cases for row in case["planners"]
    ])  # fmt: skip
    for case in cases:
        for row in case["planners"]:
            for rule, count in row["rejected_for"].items():
                name, message = row["rejected_as"][rule]
                said = f"{row['planner']}: {count:,} topologies rejected: {rule}; the first is {name}:"
                why = message.splitlines()[0].removeprefix(f"planner {row['planner']}: ")
                say_beside_output(Styled(f"{said} {why.removeprefix(f'{rule}: ')}", "dim"))
        for pair in case["compared"]:
            _print_pair(case, pair)


def _print_pair(case: Mapping[str, Any], pair: Mapping[str, Any]) -> None:
    if is_terminal():
        say()
    say(
        f"{case['suite']}: {pair['other']} compared with {pair['base']}, {pair['topologies']:,} topologies "
        "that both planned"
    )
    if not pair["topologies"]:
        return
    named = ("metric", pair["base"], pair["other"], "difference", "95% interval", "better", "equal", "worse")
    columns = [Column(name, justify="left" if name == "metric" else "right", no_wrap=True) for name in named]
    differing = [entry for entry in pair["metrics"] if entry["better"] or entry["worse"]]
    print_table(columns, [
        (
            entry["metric"], number(entry["base"]), number(entry["other"]), number(entry["difference"]),
            f"{number(entry['low'])} … {number(entry['high'])}",
            f"{entry['better']:,}", f"{entry['equal']:,}", f"{entry['worse']:,}",
        )
        for entry in differing
    ])  # fmt: skip
    same = [entry["metric"] for entry in pair["metrics"] if entry not in differing]
    if same:
        say(f"equal everywhere: {', '.join(same)}")
    say(f"rates that differ by less than {MODEL_ERROR:.0%}, the error of the cost model, count as equal")
    for entry in differing:
        for kind in ("gains", "losses"):
            if entry["metric"] in ("sustained_records_per_second", "tasks", "slots") and entry[kind]:
                listed = ", ".join(f"{one['topology']} ({number(one['difference'])})" for one in entry[kind])
                say(f"{entry['metric']}, largest {kind}: {listed}")
