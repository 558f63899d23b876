"""Random topologies that Flink accepts mostly, and refuses now and then; deterministic in their seed."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.reference.random_config import random_config

MODES = ("streaming", "batch", "hybrid", "mixed")
_NAMES = (
    "Map", "Filter", "FlatMap", "Window(5s)", "Process", "Join", "Parse, split", "Enrich -> x", "聚合",
    "窗口_1", "a-1_b", "😀 emoji", "\U0001d4b3", "Ünïcode", "[brackets]", "tab\there", 'quote"d',
    "%s %d", "back\\slash", "Aa", "BB", "\u2028line",
)  # fmt: skip
_PARTITIONERS = ("rebalance", "rescale", "shuffle", "broadcast", "global", "hash", "hash", "custom")
_EXCHANGE_MODES = {
    "streaming": ("UNDEFINED", "PIPELINED", "BATCH"),
    "batch": ("UNDEFINED", "PIPELINED", "BATCH"),
    "hybrid": ("UNDEFINED", "HYBRID_FULL", "HYBRID_SELECTIVE", "BATCH"),
    "mixed": ("UNDEFINED", "PIPELINED", "BATCH", "HYBRID_FULL", "HYBRID_SELECTIVE"),
}
_KINDS = (
    "one_input", "one_input", "one_input", "one_input", "two_input", "multi_input", "async", "sink", "sink",
    "partition", "partition", "partition", "union", "side_output", "source",
)  # fmt: skip
_CHAINING = ("ALWAYS", "NEVER", "HEAD", "HEAD_WITH_SOURCES")
_MOST_EDGES = 24
"""An operator's most edges from one input: unions of unions double them."""


class _Builder:
    """What the next choice depends on. `edges`: how many edges a consumer of a transformation gets;
    `parallelisms`: of the operators it stands for; `forward`: whether one of those edges is forward."""

    def __init__(self, rng: Random, mode: str) -> None:
        self.rng = rng
        self.mode = mode
        self.transformations: list[dict[str, Any]] = []
        self.edges: dict[int, int] = {}
        self.parallelisms: dict[int, set[int]] = {}
        self.forward: dict[int, bool] = {}
        self.parallelism = rng.choice((1, 2, 3, 4, 4, 8))
        self.share_of = {
            key: rng.choice(shares)
            for key, shares in {
                "parallelism": (0, 0.1, 0.3, 0.8),
                "max_parallelism": (0, 0, 0.1, 0.4),
                "chaining": (0, 0.1, 0.3),
                "uid": (0, 0.2, 0.9, 1),
                "uid_hash": (0, 0, 0.1),
                "slot_sharing_group": (0, 0, 0.05, 0.2),
                "co_location_group": (0, 0, 0, 0, 0.15),
                "buffer_timeout": (0, 0.2) if mode == "streaming" else (0, 0, 0, 0, 0, 0.05),
                "managed_memory": (0, 0.1, 0.3),
                "slot_scope": (0, 0.1, 0.3),
                "forward": (0.02, 0.3),
                "legacy": {"streaming": (0, 0.4), "mixed": (0, 0.2)}.get(mode, (0,)),
                "exchange_mode": (0, 0.1, 0.5),
                "recent": (0.2, 0.7, 0.97),
            }.items()
        }
        if mode == "hybrid" and rng.random() < 0.9:
            self.share_of["slot_sharing_group"] = 0

    def chance(self, key: str) -> bool:
        return self.rng.random() < self.share_of[key]

    def pick_input(self) -> int:
        """Any transformation but a sink; often a recent one, so that chains and virtual chains get long."""
        allowed: list[int] = [t["id"] for t in self.transformations if t["kind"] != "sink"]
        return allowed[-1] if self.chance("recent") else self.rng.choice(allowed)

    def add(self, kind: str, inputs: list[int], **options: Any) -> int:
        new_id = len(self.transformations) + 1
        given = {"inputs": inputs} if inputs else {}
        self.transformations.append({"id": new_id, "kind": kind, **given, **options})
        return new_id

    def operator(self, kind: str, inputs: list[int], parallelism: int | None = None) -> int:
        new_id = len(self.transformations) + 1
        options: dict[str, Any] = {"name": f"{self.rng.choice(_NAMES)}{self.rng.choice(('', f'-{new_id}'))}"}
        behind = [p for i in inputs for p in self.parallelisms[i]]
        if parallelism is None and any(self.forward[i] for i in inputs) and self.rng.random() < 0.97:
            parallelism = behind[0]
        if parallelism is None and self.chance("parallelism"):
            parallelism = self.rng.choice((1, 2, 3, 4, 5, 7, 8, 13))
        if parallelism is not None:
            options["parallelism"] = parallelism
        effective = parallelism or self.parallelism
        self._set_options(options, kind, new_id, effective)
        if kind == "sink" and self.rng.random() < 0.4:
            self._expand(options)
        self.edges[new_id] = 1
        self.parallelisms[new_id] = {effective}
        self.forward[new_id] = False
        return self.add(kind, inputs, **options)

    def _set_options(self, options: dict[str, Any], kind: str, new_id: int, parallelism: int) -> None:
        rng = self.rng
        if self.chance("max_parallelism"):
            options["max_parallelism"] = rng.choice((parallelism, 16, 128, 4096, 32768))
        if self.chance("chaining"):
            options["chaining"] = rng.choice(_CHAINING)
        if self.chance("uid"):
            options["uid"] = f"{rng.choice(('uid', 'ключ', '🔑'))}-{new_id}"
        if self.chance("uid_hash"):
            options["uid_hash"] = f"{rng.getrandbits(128):032{rng.choice('xX')}}"
        if self.chance("slot_sharing_group"):
            options["slot_sharing_group"] = rng.choice(("default", "a", "b", "组"))
        if self.chance("co_location_group"):
            options["co_location_group"] = rng.choice(("left", "right"))
        if self.chance("buffer_timeout"):
            options["buffer_timeout"] = rng.choice((-1, 0, 5, 1000))
        if self.chance("managed_memory"):
            options["managed_memory"] = {"OPERATOR": rng.choice((1, 3, 7, 128, 200))}
        if self.chance("slot_scope"):
            options["slot_scope"] = rng.sample(("STATE_BACKEND", "PYTHON"), rng.choice((1, 2)))

    def _expand(self, options: dict[str, Any]) -> None:
        """Make it a sink of the Sink V2 API, with any of the parts that such sinks have."""
        rng = self.rng
        for key in ("uid_hash", "buffer_timeout", "managed_memory", "slot_scope"):
            options.pop(key, None)
        options["writer"] = {"uid_hash": f"{rng.getrandbits(128):032x}"} if rng.random() < 0.1 else {}
        if rng.random() < 0.3:
            options["pre_write"] = self._steps(rng.randint(0, 3))
        if rng.random() < 0.7:
            options["committer"] = {}
            if rng.random() < 0.3:
                options["pre_commit"] = self._steps(rng.randint(0, 3))
            if rng.random() < 0.2:
                options["global_committer"] = True
            elif rng.random() < 0.3:
                options["post_commit"] = self._steps(rng.randint(0, 3))

    def _steps(self, count: int) -> list[dict[str, Any]]:
        rng, steps = self.rng, list[dict[str, Any]]()
        for place in range(count):
            if rng.random() < 0.4:
                steps.append({"kind": "partition", "partitioner": rng.choice(_PARTITIONERS)})
                continue
            step: dict[str, Any] = {"kind": "one_input", "name": f"step {place}"}
            choices: tuple[tuple[str, tuple[Any, ...]], ...] = (
                ("parallelism", (1, 2, 3)),
                ("max_parallelism", (7, 128)),
                ("chaining", _CHAINING),
                ("slot_sharing_group", ("a", "b")),
                ("co_location_group", ("left", "right")),
                ("buffer_timeout", (0, 5)),
            )
            for key, values in choices:
                if rng.random() < 0.1:
                    step[key] = rng.choice(values)
            steps.append(step)
        return steps

    def source(self, parallelism: int | None = None) -> int:
        return self.operator("legacy_source" if self.chance("legacy") else "source", [], parallelism)

    def virtual(self, kind: str, inputs: list[int], **options: Any) -> int:
        new_id = self.add(kind, inputs, **options)
        self.edges[new_id] = sum(self.edges[i] for i in inputs)
        self.parallelisms[new_id] = set().union(*(self.parallelisms[i] for i in inputs))
        given = options.get("partitioner")
        self.forward[new_id] = given == "forward" if given else any(self.forward[i] for i in inputs)
        return new_id


def _add_partition(b: _Builder, upstream: int) -> None:
    options = {"partitioner": b.rng.choice(_PARTITIONERS)}
    if b.chance("forward") and (len(b.parallelisms[upstream]) == 1 or b.rng.random() < 0.02):
        options["partitioner"] = "forward"
    if b.chance("exchange_mode"):
        options["exchange_mode"] = b.rng.choice(_EXCHANGE_MODES[b.mode])
    b.virtual("partition", [upstream], **options)


def _add_union(b: _Builder) -> None:
    inputs = [b.pick_input() for _ in range(b.rng.choice((1, 2, 2, 3)))]
    if b.rng.random() < 0.2:
        inputs.append(inputs[0])
    if sum(b.edges[i] for i in inputs) <= _MOST_EDGES:
        b.virtual("union", inputs)


def _add_multi_input(b: _Builder) -> None:
    """Often with sources of its own, which are chained where parallelism and groups allow it."""
    parallelism = b.rng.choice((None, None, 2))
    inputs = []
    for _ in range(b.rng.randint(1, 4)):
        inputs.append(b.source(parallelism) if b.rng.random() < 0.5 else b.pick_input())
    kind = b.rng.choice(("multi_input", "multi_input", "multi_input", "one_input", "two_input"))
    if kind == "one_input" or len(inputs) == 1:
        new_id = b.operator("one_input" if kind != "multi_input" else kind, inputs[:1], parallelism)
    else:
        new_id = b.operator(kind, inputs[:2] if kind == "two_input" else inputs, parallelism)
    if b.rng.random() < 0.7:
        b.transformations[new_id - 1]["chaining"] = "HEAD_WITH_SOURCES"


def _add(b: _Builder, kind: str) -> None:
    if kind == "source":
        b.source()
    elif kind == "partition":
        _add_partition(b, b.pick_input())
    elif kind == "union":
        _add_union(b)
    elif kind == "side_output":
        b.virtual(kind, [b.pick_input()], tag=b.rng.choice(("late", "rejected", "迟到")))
    elif kind == "multi_input":
        _add_multi_input(b)
    elif kind == "two_input":
        b.operator(kind, [b.pick_input(), b.pick_input()])
    else:
        b.operator(kind, [b.pick_input()])


def _empty_a_string(b: _Builder) -> None:
    operators = [t for t in b.transformations if "name" in t]
    b.rng.choice(operators)[b.rng.choice(("name", "uid"))] = ""


def _repeat_a_uid(b: _Builder) -> None:
    with_uid = [t for t in b.transformations if "uid" in t]
    if len(with_uid) > 1:
        with_uid[-1]["uid"] = with_uid[0]["uid"]


def random_topology(seed: int, size: int, *, mode: str = "streaming") -> dict[str, Any]:
    """A `transformations` line of about `size` transformations (one of MODES), equal for equal arguments.

    `select` is left out: Flink 2.3 does not know it.
    """
    rng = Random(f"{mode} {seed} {size}")
    b = _Builder(rng, mode)
    for _ in range(rng.randint(1, 3)):
        b.source()
    b.operator("one_input", [b.pick_input()])
    while len(b.transformations) < size:
        _add(b, rng.choice(_KINDS))
    if rng.random() < 0.03:
        _repeat_a_uid(b)
    if rng.random() < 0.02:
        _empty_a_string(b)
    topology: dict[str, Any] = {"name": f"{mode}-{seed}-{size}", "parallelism": b.parallelism}
    if rng.random() < 0.15:
        topology["max_parallelism"] = rng.choice((8, 64, 128, 1000))
    if rng.random() < 0.05:
        topology["chaining"] = False
    config = random_config(rng, mode)
    if config:
        topology["config"] = config
    topology["transformations"] = b.transformations
    return topology


def topologies(*, modes: tuple[str, ...] = MODES, max_size: int = 40) -> st.SearchStrategy[dict[str, Any]]:
    """Random topologies for property tests; they shrink towards small sizes."""
    return st.builds(
        lambda size, seed, mode: random_topology(seed, size, mode=mode),
        st.integers(1, max_size),
        st.integers(0, 2**32 - 1),
        st.sampled_from(modes),
    )
