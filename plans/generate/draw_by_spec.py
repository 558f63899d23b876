"""Topologies drawn by a spec file.

The keys follow NAMB's workflow schema: A. Pagliari, F. Huet, G. Urvoy-Keller, "NAMB: A quick and
flexible stream processing application prototype generator", CCGrid 2020; https://github.com/ale93p/namb.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from random import Random
from typing import Annotated, Any, NamedTuple

import numpy as np
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from penstock.plans.errors import InputError
from penstock.plans.generate.fidelity import RESAMPLED, TOTAL_VARIATION, Distance
from penstock.plans.importing.bounds import (
    MOST_BYTES_OF_YAML,
    bounded_file,
    bounded_seconds,
    require_at_most,
    require_bounded_yaml,
)
from penstock.plans.printable import first_and_count
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import Kind, Partitioner

# Spec files: their content, and how they are read.


class SpecDistribution(NamedTuple):
    """`values` with relative `weights`; without weights, all are equally likely."""

    values: Sequence[Any]
    weights: Sequence[float] = ()

    def draw(self, random: Random) -> Any:
        """Draw one of the values."""
        if len(self.values) == 1:
            return self.values[0]
        if self.weights:
            return random.choices(self.values, cum_weights=list(accumulate(self.weights)))[0]
        return self.values[random.randrange(len(self.values))]


def distribution_of(entry: Any) -> SpecDistribution:
    """Parse a distribution in the notation of spec files.

    One value; a list of values, all equally likely; an object of values to weights; or `{min: 2, max: 5}`,
    whole numbers that are all equally likely. Raises ValueError.
    """
    if isinstance(entry, SpecDistribution):
        return entry
    if isinstance(entry, list):
        if not entry or len(set(map(repr, entry))) < len(entry):
            raise ValueError("must be a list of different values, at least one")
        return SpecDistribution(entry)
    if not isinstance(entry, dict):
        return SpecDistribution([entry])
    if set(entry) == {"min", "max"}:
        low, high = entry["min"], entry["max"]
        if type(low) is not int or type(high) is not int or low > high:
            raise ValueError("min and max must be whole numbers, min not above max")
        return SpecDistribution(range(low, high + 1))
    weights = list(entry.values())
    numbers = all(type(weight) in (int, float) and 0 <= weight < float("inf") for weight in weights)
    if not numbers or not sum(weights):
        raise ValueError("must be an object of values to weights, 0 or more and not all 0, or of min and max")
    weighted = {value: weight for value, weight in entry.items() if weight}
    return SpecDistribution(list(weighted), list(weighted.values()))


def read_with_contradictions(
    source: Any, read: Callable[[Any], Any], contradictions: Callable[[Mapping[str, Any]], list[str]]
) -> Any:
    """Run `read(source)` for a model's validator in the mode `wrap`; report wrong keys and contradictions
    together.

    Pydantic validates a model as a whole only after all of its fields are valid. `contradictions` gets the
    keys as written, with any values. Raises ValidationError with all problems.
    """
    problems: list[InitErrorDetails] = []
    result = None
    try:
        result = read(source)
    except ValidationError as error:
        problems = [
            InitErrorDetails(
                type=PydanticCustomError(problem["type"], problem["msg"]),
                loc=problem["loc"],
                input=problem["input"],
            )
            for problem in error.errors()
        ]
    if isinstance(source, Mapping):
        problems += [
            InitErrorDetails(type=PydanticCustomError("value_error", text), loc=(), input=source)
            for text in contradictions(source)
        ]
    if problems:
        raise ValidationError.from_exception_data("spec", problems)
    return result


MAX_DEPTH = 10_000
MAX_WIDTH = 1_000
_MAX_TOTAL = 1_000_000


class SpecShape(StrEnum):
    """How the levels of a topology are connected, as NAMB's `connection.shape`."""

    LINEAR = "linear"  #: one operator in each level
    DIAMOND = "diamond"  #: several in the second level, all read by the third
    STAR = "star"  #: several sources, read by one operator that is read by several


class Routing(StrEnum):
    """How an operator's input is partitioned, by NAMB's values of `connection.routing` and then more of
    Flink's.
    """

    NONE = "none"
    BALANCED = "balanced"
    HASH = "hash"
    BROADCAST = "broadcast"
    REBALANCE = "rebalance"
    RESCALE = "rescale"
    SHUFFLE = "shuffle"
    GLOBAL = "global"


class Balancing(StrEnum):
    """How a topology's subtasks are divided among its operators, as NAMB's `scalability.balancing`."""

    BALANCED = "balanced"
    INCREASING = "increasing"
    DECREASING = "decreasing"
    PYRAMID = "pyramid"


LEAST_DEPTH = {SpecShape.LINEAR: 2, SpecShape.DIAMOND: 3, SpecShape.STAR: 3}


def _whole(low: int, high: int) -> Any:
    def accepts(value: Any) -> bool:
        return type(value) is int and low <= value <= high

    return _drawn(accepts, f"whole numbers from {low:,} to {high:,}")


def _word(allowed: type[StrEnum]) -> Any:
    return _drawn(lambda value: value in list(allowed), ", ".join(allowed))


def _drawn(accepts: Callable[[Any], bool], allowed: str) -> Any:
    def read(entry: Any) -> SpecDistribution:
        distribution = distribution_of(entry)
        ends = (
            distribution.values[:: max(1, len(distribution.values) - 1)]
            if isinstance(distribution.values, range)
            else distribution.values
        )
        wrong = [value for value in ends if not accepts(value)]
        if wrong:
            raise ValueError(f"must be {allowed}, got {first_and_count(list(map(shorten, wrong)), most=5)}")
        return distribution

    return Annotated[Any, BeforeValidator(read)]


class _SpecPart(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True)


class Scalability(_SpecPart):
    """`parallelism`: total subtasks of a topology's operators; `operators`: subtasks per operator instead."""

    parallelism: _whole(1, _MAX_TOTAL) | None = None  # type: ignore[valid-type]
    balancing: _word(Balancing) = "balanced"  # type: ignore[valid-type]
    variability: Annotated[float, Field(ge=0, le=1)] = 0.5
    operators: _whole(1, MAX_PARALLELISM) | None = None  # type: ignore[valid-type]

    @model_validator(mode="wrap")
    @classmethod
    def _one_of_them(cls, source: Any, read: Callable[[Any], Any]) -> Any:
        def contradictions(keys: Mapping[str, Any]) -> list[str]:
            both = keys.get("parallelism") is not None and keys.get("operators") is not None
            return ["parallelism and operators cannot be combined"] if both else []

        return read_with_contradictions(source, read, contradictions)


class Connection(_SpecPart):
    """`width`: the number of operators of a wide level."""

    shape: _word(SpecShape) = "linear"  # type: ignore[valid-type]
    routing: _word(Routing) = "none"  # type: ignore[valid-type]
    width: _whole(2, MAX_WIDTH) = 2  # type: ignore[valid-type]


class Workflow(_SpecPart):
    """NAMB's `workflow`; keys without effect on plans accept any value."""

    depth: _whole(2, MAX_DEPTH)  # type: ignore[valid-type]
    scalability: Scalability = Scalability()
    connection: Connection = Connection()
    workload: Any = None
    reliability: Any = None
    filtering: Any = None
    windowing: Any = None

    @model_validator(mode="wrap")
    @classmethod
    def _deep_enough(cls, source: Any, read: Callable[[Any], Any]) -> Any:
        def contradictions(keys: Mapping[str, Any]) -> list[str]:
            connection = keys.get("connection")
            shape = connection.get("shape", "linear") if isinstance(connection, Mapping) else "linear"
            try:
                least = max(LEAST_DEPTH[SpecShape(name)] for name in distribution_of(shape).values)
                shallowest = min(distribution_of(keys.get("depth")).values)
                too_low = 2 <= shallowest < least
            except (TypeError, ValueError):  # reported for the keys themselves
                return []
            return [f"depth must be {least} or more in these shapes, got {shallowest}"] if too_low else []

        return read_with_contradictions(source, read, contradictions)


class FleetSpec(_SpecPart):
    """A spec file. `config`: Flink options of every topology; `name`: prefix of topology names."""

    name: Annotated[str, Field(min_length=1)] = "spec"
    workflow: Workflow
    config: dict[str, str] = {}
    datastream: Any = None

    def unused(self) -> list[str]:
        """Return the keys of NAMB that are set and have no effect on plans."""
        top_level = [key for key in ("datastream",) if getattr(self, key) is not None]
        keys = ("workload", "reliability", "filtering", "windowing")
        return top_level + [f"workflow.{key}" for key in keys if getattr(self.workflow, key) is not None]


def read_fleet_spec(path: str) -> FleetSpec:
    """Read the spec of a YAML file. Raises InputError with all problems, and OSError."""
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES_OF_YAML + 1)
    try:
        with bounded_file(path), bounded_seconds():
            require_at_most(len(text), MOST_BYTES_OF_YAML, "bytes of YAML")
            root = yaml.compose(text, yaml.SafeLoader)
            require_bounded_yaml(root)
            repeated = _repeated_key(root)
            document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        problem = getattr(error, "problem", None) or f"{type(error).__name__}: {shorten(str(error))}"
        raise InputError(f"{path}{line}: invalid YAML: {problem}") from error
    if repeated is not None:
        at, key = repeated
        raise InputError(f"{path}, line {at}: the key {shorten(key)} occurs twice")
    if isinstance(document, dict) and "pipeline" in document:
        raise InputError(
            f"{path}: the key pipeline is not supported",
            "it describes a single application of NAMB; use workflow",
        )
    if not isinstance(document, dict):
        raise InputError(f"{path} must be an object with the key workflow, got {shorten(document)}")
    try:
        return FleetSpec.model_validate(document)
    except ValidationError as error:
        raise InputError("\n".join(f"{path}: {text}" for text in _error_texts(error))) from error


def _repeated_key(root: Any) -> tuple[int, str] | None:
    """Return line and name of a key that occurs twice in an object of a YAML document."""
    nodes, seen = [root], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(node)
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
            continue
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    return key.start_mark.line + 1, key.value
                keys.add(key.value)
            nodes.append(value)
    return None


def _error_texts(error: ValidationError) -> Sequence[str]:
    messages = []
    for problem in error.errors():
        # Positions within a union of types are not keys.
        keys = [str(part) for part in problem["loc"] if not str(part).startswith("function-before")]
        message = str(problem["msg"]).removeprefix("Value error, ")
        reason = "not a key of a spec" if problem["type"] == "extra_forbidden" else message
        messages.append(f"{'.'.join(keys) or 'spec'}: {reason}")
    return messages


_PARTITIONERS: Mapping[str, str] = {Routing.BALANCED: Partitioner.REBALANCE}
"""Routings whose name differs from Flink's."""

Counts = defaultdict[str, Counter[Any]]
"""The number of draws of each value, by the keys of the spec."""


def no_counts() -> Counts:
    """Return empty counters for all keys."""
    return defaultdict(Counter)


def draw_by_spec(spec: FleetSpec, seed: int, number: int, counts: Counts) -> dict[str, Any]:
    """Draw topology `number` (from 0) of the fleet of a spec and a seed; it depends on nothing else.

    The first level consists of sources; operators without a reader are sinks. An operator reads all operators
    of the previous level, through a union if there are several; after the wide level of a star, only the
    first. Drawn values are added to `counts`.
    """
    name = f"{spec.name}-{seed}-{number:06}"
    random = Random(f"{seed}|{number}")
    flow = spec.workflow

    def drawn(key: str, distribution: SpecDistribution) -> Any:
        value = distribution.draw(random)
        counts[key][value] += 1
        return value

    depth = drawn("depth", flow.depth)
    shape = drawn("connection.shape", flow.connection.shape)
    width = 1 if shape == SpecShape.LINEAR else drawn("connection.width", flow.connection.width)
    widths = _widths(shape, depth, width)
    scale = flow.scalability
    parallelism: Sequence[int] = ()
    if scale.parallelism is not None:
        balancing = drawn("scalability.balancing", scale.balancing)
        total = drawn("scalability.parallelism", scale.parallelism)
        parallelism = divided(total, sum(widths), balancing, scale.variability)
    transformations: list[dict[str, Any]] = []

    def add(transformation: dict[str, Any]) -> int:
        transformations.append({"id": len(transformations) + 1, **transformation})
        return len(transformations)

    level: list[int] = []
    operators = 0
    for depth_of_level, many in enumerate(widths):
        read = level[:1] if shape == SpecShape.STAR and depth_of_level == _WIDE_OF_STAR + 1 else level
        level = []
        for place in range(many):
            inputs = read
            if len(inputs) > 1:
                inputs = [add({"kind": str(Kind.UNION), "inputs": inputs})]
            routing = drawn("connection.routing", flow.connection.routing) if inputs else Routing.NONE
            if routing != Routing.NONE:
                partitioner = str(_PARTITIONERS.get(routing, routing))
                inputs = [add({"kind": str(Kind.PARTITION), "partitioner": partitioner, "inputs": inputs})]
            own = parallelism[operators] if parallelism else None
            if scale.operators is not None:
                own = drawn("scalability.operators", scale.operators)
            operators += 1
            operator = {
                "kind": _kind(shape, widths, depth_of_level, place),
                "name": f"{'source' if not read else 'op'}_{operators}",
                **({"inputs": inputs} if inputs else {}),
                **({} if own is None else {"parallelism": own}),
            }
            level.append(add(operator))
    config = {"config": dict(spec.config)} if spec.config else {}
    return {"name": name, **config, "transformations": transformations}


_WIDE_OF_STAR = 2


def _widths(shape: str, depth: int, width: int) -> list[int]:
    """Return the number of operators of each level."""
    widths = [1] * depth
    if shape == SpecShape.DIAMOND:
        widths[1] = width
    elif shape == SpecShape.STAR:
        widths[0] = widths[_WIDE_OF_STAR] = width
    return widths


def _kind(shape: str, widths: Sequence[int], level: int, place: int) -> str:
    if level == 0:
        return str(Kind.SOURCE)
    ends = shape == SpecShape.STAR and level == _WIDE_OF_STAR and place > 0
    return str(Kind.SINK if ends or level == len(widths) - 1 else Kind.ONE_INPUT)


def divided(total: int, operators: int, balancing: str, variability: float) -> list[int]:
    """Divide `total` subtasks among operators, at least one each.

    Shares are equal, or rise (fall) evenly from 1 - `variability` to 1 + `variability` of the mean, or rise
    to the middle and fall again. The remainder goes to the largest fractions, the first if equal.
    """
    places = np.linspace(-1, 1, operators) if operators > 1 else np.zeros(1)
    rise = {
        Balancing.INCREASING: places,
        Balancing.DECREASING: -places,
        Balancing.PYRAMID: 1 - 2 * np.abs(places),
    }.get(Balancing(balancing), np.zeros(operators))
    weights = 1 + variability * rise
    spare = max(total - operators, 0)
    exact = spare * weights / weights.sum() if weights.sum() else np.zeros(operators)
    shares = np.floor(exact).astype(int)
    order = np.argsort(-(exact - shares), kind="stable")
    shares[order[: spare - int(shares.sum())]] += 1
    return [int(share) + 1 for share in shares]


def distances_of_draws(spec: FleetSpec, counts: Counts, seed: int) -> list[Distance]:
    """Return the distance between the drawn values and the spec's distribution, for each key with several
    values.

    `by_chance`: the bound that this many random draws stay below in 19 of 20 cases.
    """
    flow = spec.workflow
    distributions = {
        "depth": flow.depth,
        "connection.shape": flow.connection.shape,
        "connection.width": flow.connection.width,
        "connection.routing": flow.connection.routing,
        "scalability.balancing": flow.scalability.balancing,
        "scalability.parallelism": flow.scalability.parallelism,
        "scalability.operators": flow.scalability.operators,
    }
    random = np.random.default_rng(seed % 2**63)
    distances = []
    for key, distribution in distributions.items():
        if not counts[key] or len(distribution.values) == 1:
            continue
        drawn = np.array([counts[key][value] for value in distribution.values], float)
        weights = np.array(distribution.weights or [1] * len(drawn), float)
        shares = weights / weights.sum()
        many = int(drawn.sum())
        others = random.multinomial(many, shares, RESAMPLED) / many
        by_chance = np.quantile(np.abs(others - shares).sum(axis=1) / 2, 0.95)
        distance = float(np.abs(drawn / many - shares).sum() / 2)
        distances.append(Distance(key, TOTAL_VARIATION, distance, float(by_chance)))
    return distances
