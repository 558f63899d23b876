"""Makes the edges of a StreamGraph, as a topology file holds them.

Source: org.apache.flink.streaming.api.graph.{StreamGraph,StreamEdge,StreamGraphGenerator}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.transformations import InputEdge, LoweredTransformation
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    KEYED,
    POINTWISE,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import FORWARD_CHANGES_PARALLELISM
from penstock.plans.vocabulary import Partitioner, StreamExchangeMode


@dataclass(frozen=True)
class Upstream:
    """A node as its reader sees it, through what lies between them."""

    node: int
    partition: LoweredTransformation | None = None  #: the one nearest to the reader
    exchange_mode: str = str(StreamExchangeMode.UNDEFINED)
    side_output: LoweredTransformation | None = None  #: the one nearest to the reader


class StreamEdges:
    """The edges of one graph, in the order in which Flink adds them."""

    def __init__(self, job: str, *, dynamic: bool) -> None:
        self._job, self._dynamic = job, dynamic
        self.rows: list[dict[str, Any]] = []
        self.inputs: dict[str, InputEdge] = {}  #: by edge_id
        self._between: Counter[tuple[int, int]] = Counter()
        self._partitioners: dict[str, tuple[object, ...]] = {}

    def add(
        self,
        upstream: Upstream,
        source: dict[str, Any],
        target: dict[str, Any],
        type_number: int,
        persistent_data_set: str | None = None,
    ) -> None:
        """An edge between two nodes, which list it too. `type_number`: input of the target, 0 if it has one.

        Raises JobCompileError where Flink refuses the partitioner.
        """
        same = source["parallelism"] == target["parallelism"]
        unspecified = upstream.partition is None or upstream.partition.partitioner is None
        if unspecified:
            partitioner = Partitioner.FORWARD if same else Partitioner.REBALANCE
        else:
            assert upstream.partition is not None
            partitioner = Partitioner(str(upstream.partition.partitioner))
        if partitioner == Partitioner.FORWARD and not same:
            texts = iter(FORWARD_CHANGES_PARALLELISM)
            message = "".join(
                f"{next(texts)}{node['name']}-{node['id']}{next(texts)}{node['parallelism']}"
                for node in (source, target)
            ) + next(texts)
            raise refused(self._job, "UnsupportedOperationException", message)
        forward_class = unspecified and partitioner == Partitioner.FORWARD and self._dynamic
        pointwise = partitioner in POINTWISE
        ends = (source["id"], target["id"])
        unique = self._between[ends]
        self._between[ends] += 1
        name = partitioner.upper()
        correlated = partitioner == Partitioner.FORWARD and not forward_class
        spread = not pointwise and partitioner != Partitioner.REBALANCE
        edge_id = f"{source['name']}-{ends[0]}_{target['name']}-{ends[1]}_{type_number}_{name}_{unique}"
        edge = {
            "edge_id": edge_id,
            "source": ends[0],
            "target": ends[1],
            "type_number": type_number,
            "partitioner": name,
            "partitioner_class": UNSPECIFIED_FORWARD if forward_class else CLASSES[partitioner],
            "pointwise": pointwise,
            "broadcast": partitioner == Partitioner.BROADCAST,
            "exchange_mode": upstream.exchange_mode,
            "output_tag": None if upstream.side_output is None else upstream.side_output.tag,
            "buffer_timeout": source["buffer_timeout"],
            "unaligned_checkpoints": partitioner not in ALIGNED
            and not (upstream.partition is not None and upstream.partition.aligned),
            "inter_inputs_keys_correlated": spread,
            "intra_input_key_correlated": correlated or spread,
            "chainable": False,
        }
        if persistent_data_set is not None:
            edge["persistent_data_set"] = persistent_data_set
        self.rows.append(edge)
        self.inputs[edge_id] = InputEdge(upstream.partition, upstream.side_output, max(1, type_number))
        key = upstream.partition.id if upstream.partition is not None and partitioner in KEYED else None
        self._partitioners[edge_id] = (edge["partitioner_class"], key)
        source["out_edges"].append(edge_id)
        target["in_edges"].append(edge_id)

    def complete(self, nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The edges, once all are there, with what depends on the others."""
        aligned = {edge["target"] for edge in self.rows if not edge["unaligned_checkpoints"]}
        for edge in self.rows:  # one that refuses unaligned checkpoints refuses them for all into its target
            edge["unaligned_checkpoints"] = edge["target"] not in aligned
        by_id = {edge["edge_id"]: edge for edge in self.rows}
        for node in nodes:
            firsts: dict[tuple[object, ...], str] = {}
            for edge_id in node["out_edges"]:
                first = firsts.setdefault(self._partitioners[edge_id], edge_id)
                if first != edge_id:
                    by_id[edge_id]["equal_partitioner"] = first
        return self.rows


def refused(job: str, error: str, message: str) -> JobCompileError:
    """The exception for Flink's `error` with `message`."""
    return JobCompileError(f"job {job!r} cannot be planned ({error}): {message}")
