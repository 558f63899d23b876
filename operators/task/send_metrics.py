"""What the functions of a subtask measure, sent with its records to a query that observes them.

Each subtask makes a report: JSON with its vertex, number and attempt, and the values by operator. A report of
a vertex that others read goes along its first output and from there on to the end of the job.
"""

import json
from collections.abc import Callable
from time import monotonic

import pyarrow as pa

from penstock.operators.exchange.channel_writer import FIRST_OF_ALL, Row
from penstock.operators.functions.add_up_metrics import metrics_of_subtask
from penstock.operators.task.build_chain import Chain
from penstock.operators.task.dataframe_operators import DataFrameOperator
from penstock.operators.task.task_spec import TaskSpec

#: Seconds between two reports of a subtask that still runs: what a query that stops early gets to see.
_SECONDS = 0.5


def is_report(payload: pa.Buffer) -> bool:
    """Whether an exchange row holds a report, and no block of records."""
    return payload[0] == _BRACE  # type: ignore[no-any-return]


_BRACE = ord("{")


class MetricsSender:
    """The reports of one attempt of one subtask, and those that it passes on."""

    def __init__(
        self, spec: TaskSpec, subtask: int, attempt_number: int, chain: Chain, emit: Callable[[Row], None]
    ) -> None:
        self._who = {"vertex": spec.chain.vertex, "subtask": subtask, "attempt": attempt_number}
        self._chain, self._emit, self._subtask = chain, emit, subtask
        self._end = next(
            (one for one in chain.operators.values() if isinstance(one, DataFrameOperator)), None
        )
        self._outputs = spec.chain.outputs
        self._sent_at = 0.0
        self._number = 0
        if self._end is not None:
            self._end.before_batch = self._send_if_due

    def send(self) -> None:
        """Send what the functions have measured so far; nothing where they measure nothing."""
        metrics = metrics_of_subtask(self._chain.contexts.values())
        if metrics:
            self._number += 1
            self.forward(json.dumps({**self._who, "number": self._number, "metrics": metrics}).encode())

    def forward(self, report: bytes) -> None:
        """Send a report of this subtask, or of one that this one reads."""
        if self._end is not None:
            self._end.send_report(report)
            return
        output = self._outputs[0]
        target = output.reading[self._subtask][0] if output.partitioner == "forward" else 0
        self._emit(Row(output.edge, target, FIRST_OF_ALL, self._subtask, -1, report))

    def _send_if_due(self) -> None:
        if not self._sent_at or monotonic() - self._sent_at >= _SECONDS:
            self._sent_at = monotonic()
            self.send()
