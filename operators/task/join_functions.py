"""Functions that follow one another in a chain, to be run in one loop."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from penstock.operators.chain.operator import Operator
from penstock.operators.records.loops_of_functions import MOST_FLAT_MAPS, LoopStep
from penstock.operators.records.map_records import RecordFunctionOperator
from penstock.operators.task.chain_spec import ChainedEdge


def join_functions(
    operators: Mapping[int, Operator],
    edges: Sequence[ChainedEdge],
    written: Collection[int],
    inputs: Mapping[int, int],
) -> None:
    """Have the first operator of each run of map, filter and flat map functions lead the others.

    In: the operators of a chain, head first; its edges; the nodes whose records leave it; how many inputs a
    node has. A run ends where records have a second reader, their reader a second input, or they take their
    declared type.
    """
    readers = Counter(edge.source_node for edge in edges)
    reader = {
        edge.source_node: edge.target_node
        for edge in edges
        if edge.tag is None
        and not edge.encodes
        and readers[edge.source_node] == inputs[edge.target_node] == 1
        and edge.source_node not in written
    }
    followed: set[int] = set()
    for head, operator in operators.items():
        if head in followed or not isinstance(operator, RecordFunctionOperator):
            continue
        followers: list[RecordFunctionOperator] = []
        flat_maps = int(operator.step is LoopStep.FLAT_MAP)
        node = reader.get(head)
        while node is not None and isinstance(follower := operators[node], RecordFunctionOperator):
            flat_maps += follower.step is LoopStep.FLAT_MAP
            if flat_maps > MOST_FLAT_MAPS:
                break
            followers.append(follower)
            followed.add(node)
            node = reader.get(node)
        operator.lead(followers)
