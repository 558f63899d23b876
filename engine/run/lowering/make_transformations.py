"""Makes the transformations of one call: its own operator, what PyFlink adds to it, and virtual ones.

Source: org.apache.flink.api.dag.Transformation, pyflink.datastream.data_stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from penstock.engine.run.runtime.lowered_transformation import LoweredTransformation, PythonOperator, Step
from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.operators.records.key_selection import KeyedRow
from penstock.operators.records.map_records import MapOperator

_SETTINGS = (
    "name",
    "chaining",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "slot_resources",
    "co_location_group",
    "description",
    "min_resources",
    "preferred_resources",
)


class TransformationMaker:
    """Collects the transformations of calls, and makes those of the call under way."""

    def __init__(self) -> None:
        self._ends: dict[int, LoweredTransformation] = {}
        self._made: list[LoweredTransformation] = []
        self._call: Transformation
        self._ids: Iterator[int]

    def end_of(self, call: Transformation) -> LoweredTransformation:
        """The last transformation of a call that was lowered."""
        return self._ends[call.created]

    def _begin(self, call: Transformation, ids: Iterable[int]) -> None:
        """Make transformations of `call` with these ids."""
        self._call, self._made, self._ids = call, [], iter(ids)

    def _make_operator(
        self, call: Transformation, *, operator: Any = ..., inputs: Any = None, **properties: Any
    ) -> LoweredTransformation:
        """The operator of a call with all that its author has set."""
        passes = operator is None
        step = Step(
            name=call.name,
            transformation=next(self._ids),
            operator=None if passes else call.operator,
            pickled=None if passes else call.pickled,
            output_type=call.output_type,
            kind=call.kind,
            call=call,
            key_selectors=call.key_selectors,
        )
        settings = _settings_of(call)
        chaining = OPERATOR_KINDS[call.kind].chaining if call.kind in OPERATOR_KINDS else "ALWAYS"
        operator_of_call = LoweredTransformation(
            id=step.transformation,
            inputs=[self.end_of(read) for read in call.inputs] if inputs is None else inputs,
            managed_memory=dict(call.managed_memory),
            slot_scope=set(call.slot_scope),
            thread_mode=call.thread_mode,
            output_type=call.output_type,
            steps=(step,),
            author_settings=settings,
            **{**settings, "kind": call.kind, "chaining": call.chaining or chaining, **properties},
        )
        return self._add(operator_of_call)

    def _helper(
        self,
        name: str,
        upstream: LoweredTransformation,
        output_type: TypeInformation | None,
        operator: Any,
        *,
        runs: TypeInformation | Any = ...,
        key_selectors: tuple[Any, ...] = (),
        **properties: Any,
    ) -> LoweredTransformation:
        """An operator that PyFlink adds for a call. `runs`: type of its records here; default: the call's."""
        call = self._call
        step = Step(
            name=name,
            transformation=next(self._ids),
            operator=operator,
            output_type=call.output_type if runs is ... else runs,
            kind="one_input",
            call=None,
            key_selectors=key_selectors,
        )
        helper = LoweredTransformation(
            id=step.transformation,
            kind="one_input",
            name=name,
            inputs=[upstream],
            parallelism=call.environment_parallelism or -1,
            output_type=output_type,
            thread_mode=call.thread_mode,
            steps=(step,),
            **properties,
        )
        return self._add(helper)

    def _virtual(
        self, name: str, kind: str, inputs: list[LoweredTransformation], **properties: Any
    ) -> LoweredTransformation:
        return self._add(
            LoweredTransformation(
                id=next(self._ids),
                kind=kind,
                name=name,
                inputs=inputs,
                parallelism=self._call.default_parallelism or -1,
                output_type=inputs[0].output_type,
                **properties,
            )
        )

    def _add(self, operator: LoweredTransformation) -> LoweredTransformation:
        if any(operator.keyed_inputs):
            operator.slot_scope.add("STATE_BACKEND")
        self._made.append(operator)
        return operator


def _settings_of(call: Transformation) -> dict[str, Any]:
    """The settings that the author of a call has made, by fields of LoweredTransformation."""
    return {
        "parallelism": call.parallelism or call.default_parallelism or -1,
        "parallelism_configured": call.parallelism is not None,
        "max_parallelism": call.max_parallelism or -1,
        "buffer_timeout": -1 if call.buffer_timeout is None else call.buffer_timeout,
        **{name: getattr(call, name) for name in _SETTINGS},
    }


def take_later_settings(operator: LoweredTransformation, call: Transformation) -> None:
    """Let the operator of a call have what its author has set since it was made, for a job or a plan."""
    before = operator.author_settings
    if before is None:
        return
    operator.author_settings = _settings_of(call)
    for name, value in operator.author_settings.items():
        if value != before[name] and not (name == "chaining" and operator.python == PythonOperator.BROADCAST):
            setattr(operator, name, value)
    operator.steps = tuple(
        replace(step, name=call.name) if step.call is call else step for step in operator.steps
    )


def take_rows(operator: LoweredTransformation, call: Transformation) -> None:
    """Let an operator that reads a keyed stream have its rows of key and record, if `call` names the keys."""
    if call.key_selector is not None:
        rows = MapOperator(KeyedRow(call.key_selector))
        operator.steps = (
            replace(operator.steps[0], name="Key By", operator=rows, pickled=None, call=None),
            *operator.steps,
        )
