"""The loops that run map, filter and flat map functions over records, as Python source made for each run.

A record goes through all functions before the next one does, as in Flink's chains of operators.
Source: org.apache.flink.streaming.runtime.tasks.ChainingOutput.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from sys import getrefcount
from typing import Any, NamedTuple

from penstock.operators.chain.copies import own
from penstock.operators.chain.results import UNCHANGING, frozen


class LoopStep(StrEnum):
    """The step of a function on a record; the value is the method's name in function objects."""

    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"


class Settle(StrEnum):
    """What happens to a result that its function could change before it goes on; read by `loop_of`."""

    NOTHING = "nothing"  #: results are the records themselves, or the caller looks at them
    PLAIN = "plain"  #: what is neither a plain value nor a tuple is copied
    ALL = "all"  #: what can be changed, and is known to others, is copied


CONSTANT = UNCHANGING | {tuple}
"""Types of results that go on as they are where single values or tuples of these are declared."""

MOST_FLAT_MAPS = 8
"""In a run: Python nests at most 20 blocks."""


class Loop(NamedTuple):
    """`run(of, rest, stamps)` for the functions of `of`; `steps`: line to step and to place among records."""

    run: Callable[[Any, Iterator[Any], Iterator[int | None] | None], None]
    steps: dict[int, tuple[int, int]]


def _references(value: Any) -> int:
    result = value
    return getrefcount(result)


_NAMES = {
    "UNCHANGING": UNCHANGING,
    "CONSTANT": CONSTANT,
    "all_unchanging": UNCHANGING.issuperset,
    "all_constant": CONSTANT.issuperset,
    "frozen": frozen,
    "own": own,
    "getrefcount": getrefcount,
    # How many references a result has that only the loop refers to: `value` of `_references` is one more.
    "UNSHARED": _references(object()) - 1,
}


@lru_cache(256)
def loop_of(steps: tuple[LoopStep, ...], stamped: bool, settle: Settle) -> Loop:
    """The loop over records for functions that do `steps`.

    `stamped`: each result gets its record's timestamp. The loop adds to `of.results` (and `of.stamps`), calls
    `of.relieve` once they are `of.piece.limit` if a flat map is among the steps, and `of.failed` for what is
    raised, which it raises.
    """
    writer = _Writer(steps, stamped, settle)
    source = "\n".join(writer.lines())
    namespace = dict(_NAMES)
    exec(compile(source, f"<{', '.join(steps)}>", "exec"), namespace)
    run: Any = namespace["loop"]
    return Loop(run, writer.steps)


class _Writer:
    """The lines of a loop, while they are written."""

    def __init__(self, steps: Sequence[LoopStep], stamped: bool, settle: Settle) -> None:
        self._kinds, self._stamped, self._settle = steps, stamped, settle
        self._flat = LoopStep.FLAT_MAP in steps
        self._lines: list[str] = []
        self._depth = 0
        self._records = ["value"]
        self.steps: dict[int, tuple[int, int]] = {}

    def lines(self) -> list[str]:
        functions = "".join(f"f{number}, " for number in range(len(self._kinds)))
        self._add("def loop(of, rest, stamps):", 1)
        self._add(f"{functions.strip()} = of.functions")
        self._bind()
        levels = self._kinds.count(LoopStep.FLAT_MAP)
        names = ["value", "r0", *(f"{kind}{level}" for level in range(1, levels + 1) for kind in "rs")]
        self._add(f"{' = '.join(names)} = None")
        self._add("try:", 1)
        pairs = "for value, stamp in zip(rest, stamps):" if self._stamped else "for value in rest:"
        self._add(pairs, 1)
        self._write_steps()
        self._depth = 1
        self._add("except BaseException as error:", 1)
        sources = "".join(f"s{level}, " for level in range(levels, 0, -1))
        records = ", ".join(self._records)
        line = "error.__traceback__.tb_lineno"
        self._add(f"raise of.failed(error, {line}, ({records},), ({sources})) from error")
        return self._lines

    def _write_steps(self) -> None:
        record, level = "value", 0
        for number, kind in enumerate(self._kinds):
            line = (number, self._records.index(record))
            if kind is LoopStep.FILTER:
                self._add(f"if not f{number}({record}): continue", step=line)
            elif kind is LoopStep.MAP:
                result = f"r{level}"
                self._add(f"{result} = f{number}({record})", step=line)
                record = self._known(result)
            else:
                level += 1
                self._add(f"s{level} = f{number}({record})", step=line)
                self._add(f"if s{level} is None: continue")
                if number == len(self._kinds) - 1:
                    self._take_list(f"s{level}")
                self._add(f"for r{level} in s{level}:", 1, line)
                record = self._known(f"r{level}")
        if self._settle is not Settle.NOTHING:
            self._write_settling(record)
        self._add(f"append({record})")
        if self._stamped:
            self._add("append_stamp(stamp)")
        if self._flat:
            self._relieve()

    def _take_list(self, variable: str) -> None:
        """Results that are a list of constant values, as a whole: calls are quicker than a loop over many."""
        test = "all_constant" if self._settle is Settle.PLAIN else "all_unchanging"
        self._add(
            f"if type({variable}) is list and len({variable}) > 4 and {test}(map(type, {variable})):", 1
        )
        self._add(f"results += {variable}")
        if self._stamped:
            self._add(f"of.stamps += [stamp] * len({variable})")
        self._add(f"{variable} = ()")
        self._relieve()
        self._add("continue")
        self._depth -= 1

    def _write_settling(self, record: str) -> None:
        if self._settle is Settle.PLAIN:
            self._add(f"if type({record}) not in CONSTANT: {record} = frozen({record})")
            return
        self._add(f"kind = type({record})")
        self._add("if kind is tuple:", 1)
        # a loop: a call for the few items of a tuple would take longer
        self._add(f"for item in {record}:", 1)
        self._add("if type(item) not in UNCHANGING:", 1)
        self._copy_shared(record)
        self._add("break")
        self._depth -= 3
        self._add("elif kind not in UNCHANGING:", 1)
        self._copy_shared(record)
        self._depth -= 1

    def _copy_shared(self, record: str) -> None:
        # An object that the function still refers to may be changed before it goes on. A record that goes
        # through belongs to this loop alone, unless a flat map may have returned it twice.
        same = "" if self._flat else f"{record} is not value and "
        self._add(f"if {same}getrefcount({record}) > UNSHARED: {record} = frozen({record})")
        self._add(f"elif kind is not list or not all_unchanging(map(type, {record})):", 1)
        self._add(f"{record} = own({record})")
        self._depth -= 1

    def _relieve(self) -> None:
        self._add("if len(results) >= limit:", 1)
        self._add("of.relieve()")
        self._bind()
        self._depth -= 1

    def _bind(self) -> None:
        self._add("results, limit = of.results, of.piece.limit")
        self._add("append = results.append")
        if self._stamped:
            self._add("append_stamp = of.stamps.append")

    def _known(self, record: str) -> str:
        if record not in self._records:
            self._records.append(record)
        return record

    def _add(self, line: str, deeper: int = 0, step: tuple[int, int] | None = None) -> None:
        self._lines.append(" " * self._depth + line)
        self._depth += deeper
        if step is not None:
            self.steps[len(self._lines)] = step
