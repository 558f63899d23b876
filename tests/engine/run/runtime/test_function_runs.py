"""Functions that follow one another in a chain: one loop, the results of calling them record by record."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.pyflink.common import Types
from penstock.operators.chain import operator as piece_size
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import Operator, OperatorContext
from penstock.operators.records.map_records import (
    MOST_FLAT_MAPS,
    FilterOperator,
    FlatMapOperator,
    LoopStep,
    MapOperator,
    RecordFunctionOperator,
)
from penstock.operators.task.build_chain import Chain, ChainedEdge, ChainSpec, OperatorSpec
from tests.operator_harness import Recording

OPERATORS = {LoopStep.MAP: MapOperator, LoopStep.FILTER: FilterOperator, LoopStep.FLAT_MAP: FlatMapOperator}
FUNCTIONS: dict[LoopStep, list[Callable[[Any], Any]]] = {
    LoopStep.MAP: [lambda v: v + 1, lambda v: v * 3],
    LoopStep.FILTER: [lambda v: v % 2, lambda v: v % 3 != 0],
    LoopStep.FLAT_MAP: [
        lambda v: [v, -v],
        lambda v: (v + n for n in range(v % 3)),
        lambda v: None if v % 2 else [v] * 6,
    ],
}
STEP = st.sampled_from(list(LoopStep)).flatmap(
    lambda step: st.tuples(st.just(step), st.sampled_from(FUNCTIONS[step]))
)


class Keep(Operator):
    """The end of a chain, which records what comes."""

    def __init__(self) -> None:
        self.recorded = Recording()

    def process(self, values, timestamps):
        self.recorded.collect(values, timestamps)


def chain_of(
    operators: list[Operator], edges: list[tuple[int, int]] | None = None, plain: bool = True
) -> Chain:
    """A chain of operators 0, 1, …, one after the other if no edges are given."""
    specs = [
        OperatorSpec(
            node=node,
            name=f"operator {node}",
            operator=operator,
            output_type=Types.LONG() if plain else None,
        )
        for node, operator in enumerate(operators)
    ]
    pairs = edges or [(node, node + 1) for node in range(len(operators) - 1)]
    spec = ChainSpec(
        vertex=0,
        name="chain",
        parallelism=1,
        max_parallelism=128,
        operators=tuple(specs),
        edges=tuple(ChainedEdge(source_node=source, target_node=target) for source, target in pairs),
        outputs=(),
        gates=(),
    )
    chain = Chain(spec, OperatorContext(), lambda *_: pytest.fail("nothing is written"))
    chain.open()
    return chain


def one_by_one(functions, values, stamps):
    """What the functions give if each record goes through all of them before the next one comes."""
    found = []

    def go(number, value, stamp):
        if number == len(functions):
            found.append((value, stamp))
            return
        step, function = functions[number]
        result = function(value)
        if step is LoopStep.FILTER:
            results = [value] if result else []
        else:
            results = [result] if step is LoopStep.MAP else result or []
        for one in results:
            go(number + 1, one, stamp)

    for value, stamp in zip(values, stamps or [None] * len(values), strict=True):
        go(0, value, stamp)
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    functions=st.lists(STEP, min_size=1, max_size=6),
    lists=st.lists(st.lists(st.integers(-20, 20), min_size=1, max_size=40), min_size=1, max_size=3),
    stamped=st.booleans(),
    plain=st.booleans(),
    most=st.sampled_from([2, 7, 1 << 16]),
)
def test_runs_give_what_calls_record_by_record_give(functions, lists, stamped, plain, most):
    keep = Keep()
    chain = chain_of([*(OPERATORS[step](function) for step, function in functions), keep], plain=plain)
    head = chain.input_of(0, 1, Types.LONG())
    expected = []
    before, piece_size._MOST_RESULTS = piece_size._MOST_RESULTS, most
    try:
        for values in lists:
            stamps = [value * 10 for value in values] if stamped else None
            expected += one_by_one(functions, values, stamps)
            head.collect(list(values), None if stamps is None else list(stamps))
    finally:
        piece_size._MOST_RESULTS = before
    assert keep.recorded.stamped == expected


def test_a_record_goes_through_all_functions_before_the_next():
    calls: list[tuple[str, int]] = []

    def noted(name: str) -> Callable[[int], int]:
        def note(value: int) -> int:
            calls.append((name, value))
            return value

        return note

    keep = Keep()
    chain = chain_of([MapOperator(noted("a")), FilterOperator(noted("b")), MapOperator(noted("c")), keep])
    chain.input_of(0, 1, Types.LONG()).collect([1, 2], None)
    assert calls == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2)]


@pytest.mark.parametrize("failing", range(5))
def test_a_failure_names_its_operator_and_the_record_it_had(failing):
    def function(number: int) -> Callable[[Any], Any]:
        def call(value: int) -> Any:
            if number == failing and value >= 10 * number + 3:
                raise ValueError("no more")
            return [value + 10] if number == 2 else value + 10

        return call

    kinds = [MapOperator, MapOperator, FlatMapOperator, MapOperator, MapOperator]
    chain = chain_of([*(kind(function(number)) for number, kind in enumerate(kinds)), Keep()])
    with pytest.raises(UserFunctionError) as raised:
        chain.input_of(0, 1, Types.LONG()).collect([1, 2, 3, 4], None)
    assert raised.value.operator == f"operator {failing}"
    assert raised.value.record == str(10 * failing + 3)
    assert raised.value.cause == "ValueError: no more"


def test_a_generator_that_raises_is_its_operators_failure_and_others_are_closed():
    closed: list[int] = []

    def outer(value: int):
        try:
            yield value
        finally:
            closed.append(value)

    def inner(value: int):
        yield value
        raise KeyError("broken")

    chain = chain_of([FlatMapOperator(outer), MapOperator(lambda v: v + 1), FlatMapOperator(inner), Keep()])
    with pytest.raises(UserFunctionError, match="KeyError") as raised:
        chain.input_of(0, 1, Types.LONG()).collect([5], None)
    assert (raised.value.operator, raised.value.record, closed) == ("operator 2", "6", [5])


def test_what_two_operators_read_ends_a_run():
    ends = [Keep(), Keep()]
    plus = MapOperator(lambda v: v + 1)
    chain = chain_of([plus, MapOperator(lambda v: v * 2), *ends], [(0, 1), (1, 2), (0, 3)])
    chain.input_of(0, 1, Types.LONG()).collect([1, 2], None)
    assert [end.recorded.values for end in ends] == [[4, 6], [2, 3]]


def test_a_result_that_its_function_keeps_and_changes_is_copied_once_it_leaves():
    kept: list[int] = []

    def grow(value: int) -> list[int]:
        kept.append(value)
        return kept

    keep = Keep()
    chain_of([MapOperator(grow), MapOperator(lambda v: v), keep], plain=False).input_of(0, 1, None).collect(
        [1, 2], None
    )
    assert keep.recorded.values == [[1], [1, 2]]


def test_many_flat_maps_are_several_runs():
    keep = Keep()
    many: list[RecordFunctionOperator] = [
        FlatMapOperator(lambda v: [v, v]) for _ in range(MOST_FLAT_MAPS + 3)
    ]
    chain_of([*many, keep]).input_of(0, 1, Types.LONG()).collect([1], None)
    assert len(keep.recorded.values) == 2 ** len(many)
