"""The shapes that can be generated, one file each."""

from collections.abc import Callable
from typing import NamedTuple

from plans.generate.chain import chain
from plans.generate.diamond import diamond
from plans.generate.fleet import Fleet
from plans.generate.giant import giant
from plans.generate.layered import layered
from plans.generate.random import random
from plans.generate.spec import Spec
from plans.generate.wide import wide


class Shape(NamedTuple):
    """A named generator: from a Spec to the description of its fleet."""

    name: str
    fleet: Callable[[Spec], Fleet]
    default_operators: int
    width: str  #: what the Spec's width is of this shape; empty: it has none


SHAPES: tuple[Shape, ...] = (
    Shape("random", random, 12, ""),
    Shape("layered", layered, 400, "operators in a layer"),
    Shape("chain", chain, 60, ""),
    Shape("diamond", diamond, 62, "branches of a stage"),
    Shape("wide", wide, 100, "branches of a group"),
    Shape("giant", giant, 10_000, "cells that a union reads"),
)
