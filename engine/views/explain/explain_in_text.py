"""Explanations as people read them, 80 columns wide."""

from textwrap import wrap

from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say
from penstock.engine.views.explain.explain_edge import Explanation

_WIDTH = 79
_EDGES = 100
"""Edges shown of a whole topology."""


def tell(explained: Explanation, whole: bool) -> None:
    """Print explanations. `whole`: those of a whole topology, without met conditions and operators."""
    say(Styled(explained["topology"], "bold"))
    edges = explained["edges"]
    if whole:
        apart = [edge for edge in edges if not edge["chained"]]
        say(f"{_number(len(edges), 'edge')}: {len(edges) - len(apart):,} chained, {len(apart):,} not chained")
        for edge in apart[:_EDGES]:
            _tell_edge(edge, all_conditions=False)
        if len(apart) > _EDGES:
            say()
            say(f"… and {len(apart) - _EDGES:,} more that are not chained; --json has them all")
    else:
        for operator in explained["operators"]:
            _tell_operator(operator)
        for edge in edges:
            _tell_edge(edge, all_conditions=True)
    if whole and "fusing" in explained:
        _tell_fusing(explained["fusing"])
    for group in explained["slots"]:
        say()
        slots, tasks = _number(group["slots"], "slot"), _number(group["tasks"], "task")
        _say(f"slot sharing group {group['name']}: {slots} for {tasks}", 0)
        _say(f"{group['because']} ({group['largest_vertex']})", 2)


def _tell_fusing(fusing: Explanation) -> None:
    """Which Python operators PyFlink fuses, and which not, and why."""
    for operator in fusing["fused"]:
        say()
        _say(f"fused to one Python operator: {', '.join(operator['operators'])}", 0)
    for pair in fusing["not_fused"]:
        say()
        _say(f"{pair['source']['name']} → {pair['target']['name']}", 0)
        _say(f"two Python operators, not fused: {'; '.join(pair['reasons'])}", 2)
    for setting in fusing["lost_settings"]:
        say()
        where = f" ({setting['line']})" if setting["line"] else ""
        _say(f"{setting['setting']} {setting['value']!r}{where} of {setting['operator']} is lost", 0)
        _say(f"PyFlink fuses the operator into {setting['fused_into']}", 2)


def _tell_operator(operator: Explanation) -> None:
    _say(f"operator {operator['name']} (node {operator['node']})", 0)
    _say(f"operator id: {operator['operator_id'] or 'none: it is in no vertex of this plan'}", 2)
    _say(operator["operator_id_because"], 4)
    if operator["user_defined_operator_id"] is not None:
        _say(f"user-defined operator id: {operator['user_defined_operator_id']}", 2)
    _say(f"slot sharing group: {operator['slot_sharing_group']}", 2)
    _say(operator["slot_sharing_group_because"], 4)


def _tell_edge(edge: Explanation, all_conditions: bool) -> None:
    say()
    _say(f"{edge['source']['name']} → {edge['target']['name']}", 0)
    _say("chained" if edge["chained"] else f"not chained: {edge['not_chained_because']}", 2)
    if (result := edge["result"]) is not None:
        _say(f"result {result['type']}: {result['because']}", 2)
    for condition in edge["conditions"]:
        if condition["met"] and not all_conditions:
            continue
        _say(f"{'met' if condition['met'] else 'NOT MET'}: {condition['requires']}", 2)
        values = ", ".join(f"{name} {_value(value)}" for name, value in condition["found"].items())
        if all_conditions:
            _say(f"found: {values}", 6)
            _say(f"Flink: {condition['method']}", 6)
        if condition["change"] is not None:
            _say(f"to change it: {condition['change']}", 6)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _say(text: str, indent: int) -> None:
    """One text in lines of at most _WIDTH; a word that is longer stands in a line of its own."""
    lines = wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        say(line)


def _number(count: int, singular: str) -> str:
    return f"{count:,} {singular}{'' if count == 1 else 's'}"
