"""One walk over the bytes of topology lines: where values are, and which lines are right so far."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plans.arrow_walks import Ints
from plans.columnar.topology.line_automaton import (
    CLOSE,
    CODE,
    CODES,
    DIGIT,
    GO_ON,
    INPUT,
    INPUT_DIGIT,
    KEY,
    KEYS,
    LINE_CLOSE,
    LINE_CODE,
    LINE_CODES,
    LINE_DIGIT,
    LINE_END,
    LINE_KEY,
    LINE_KEYS,
    LINE_TEXT_END,
    LINE_TEXTS,
    OPEN,
    REFUSE,
    REFUSED,
    START,
    TEXT,
    TEXT_END,
    TEXTS,
    Actions,
    States,
    line_automaton,
)
from plans.compiled import compiled
from plans.topology.operator_rules import INPUT_COUNTS, KIND_RULES, REQUIRED_KEYS
from plans.topology.rules import INT32_MAX
from plans.vocabulary import Kind

Ints32 = npt.NDArray[np.int32]

_KINDS = tuple(map(str, Kind))
_KIND = CODES.index("kind")
_ID = CODES.index("id")
_LINE_REQUIRED = 1 << LINE_KEYS.index("name") | 1 << LINE_KEYS.index("transformations")


class Cells(NamedTuple):
    """Cells of objects by column and place; what stands where `keys` has no bit for the key means nothing."""

    keys: Ints32
    codes: Ints32
    begins: Ints32
    ends: Ints32

    def has(self, number: int) -> npt.NDArray[np.bool_]:
        """Per object whether it has the key of this number."""
        return (self.keys >> number & 1).astype(bool)


class Scanned(NamedTuple):
    """Lines and their transformations; lines that are refused have none.

    starts: where each line starts, and where the last one ends. taken: per line. sizes: transformations of
    each line. lines: cells of LINE_CODES and LINE_TEXTS, rows: of CODES and TEXTS. inputs: those of all
    rows, from bounds on.
    """

    data: bytes
    starts: Ints
    taken: npt.NDArray[np.bool_]
    sizes: Ints
    lines: Cells
    rows: Cells
    bounds: Ints32
    inputs: Ints32


def scan_lines(data: bytes) -> Scanned:
    """Lines that each end in a newline, less than 2 GiB in all.

    Those that are taken have known keys, each once, that the kind of an operator takes and needs, ids 1..n,
    earlier inputs, and values as `line_automaton` says.
    """
    count, longest = data.count(b"\n"), data.count(b"{")
    lines = _cells(len(LINE_CODES), len(LINE_TEXTS), count)
    rows = _cells(len(CODES), len(TEXTS), longest)
    bounds = np.zeros(longest + 1, np.int32)
    inputs = np.empty(longest + data.count(b","), np.int32)
    starts, sizes = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    taken = np.zeros(count, np.bool_)
    given = (np.frombuffer(data, np.uint8), line_automaton(), _rules())
    compiled(_scan)(given[0], *given[1], *given[2], *lines, *rows, bounds, inputs, starts, taken, sizes)
    found = int(sizes.sum())
    return Scanned(
        data=data,
        starts=starts,
        taken=taken,
        sizes=sizes,
        lines=lines,
        rows=Cells(*(cells[..., :found] for cells in rows)),
        bounds=bounds[: found + 1],
        inputs=inputs[: bounds[found]],
    )


def _cells(codes: int, texts: int, count: int) -> Cells:
    shapes = (count, (codes, count), (texts, count), (texts, count))
    return Cells(*(np.zeros(shape, np.int32) for shape in shapes))


def _rules() -> tuple[Ints, Ints, Ints, Ints]:
    """Per kind: the keys it takes and needs, as bits, and the smallest and largest number of inputs."""
    takes = [sum(1 << KEYS.index(key) for key in KIND_RULES[kind]) for kind in _KINDS]
    needs = [sum(1 << KEYS.index(key) for key in REQUIRED_KEYS[kind]) for kind in _KINDS]
    counts = np.array([INPUT_COUNTS[kind] for kind in _KINDS])
    return np.array(takes), np.array(needs), counts[:, 0].copy(), counts[:, 1].copy()


def _scan(  # noqa: PLR0912, PLR0915 - a loop that is compiled calls nothing
    data: npt.NDArray[np.uint8],
    following: States,
    actions: Actions,
    columns: Actions,
    values: Actions,
    takes: Ints,
    needs: Ints,
    fewest: Ints,
    most: Ints,
    line_keys: Ints32,
    line_codes: Ints32,
    line_begins: Ints32,
    line_ends: Ints32,
    keys: Ints32,
    codes: Ints32,
    begins: Ints32,
    ends: Ints32,
    bounds: Ints32,
    inputs: Ints32,
    starts: Ints,
    taken: npt.NDArray[np.bool_],
    sizes: Ints,
) -> None:
    """The loop. A line that is refused gives its rows and inputs back."""
    state = START
    line = first_row = row = read = begin = number = 0
    closed = False
    for at in range(len(data)):
        state = following[state, data[at]]
        action = actions[state]
        if action == GO_ON:
            continue
        column, value = columns[state], values[state]
        if action == KEY:
            if keys[row] >> column & 1:
                state = REFUSED
            keys[row] |= 1 << column
        elif action == TEXT:
            begin = at + value
        elif action == TEXT_END:
            begins[column, row] = begin
            ends[column, row] = at + value
        elif action == CODE:
            codes[column, row] = value
        elif action == DIGIT:
            number = number * value + data[at] - 48
            codes[column, row] = number
            if number > INT32_MAX:
                state = REFUSED
        elif action in (INPUT, INPUT_DIGIT):
            if action == INPUT:
                number = 0
                read += 1
            number = number * 10 + data[at] - 48
            inputs[read - 1] = number
            if number > row - first_row:
                state = REFUSED
        elif action == OPEN:
            keys[row] = 0
            bounds[row] = read
        elif action == CLOSE:
            kind, count = codes[_KIND, row], read - bounds[row]
            if (
                not keys[row] >> _KIND & 1
                or keys[row] & ~takes[kind] != 0
                or needs[kind] & ~keys[row] != 0
                or count < fewest[kind]
                or count > most[kind]
                or codes[_ID, row] != row - first_row + 1
            ):
                state = REFUSED
            row += 1
            bounds[row] = read
        elif action == LINE_KEY:
            if line_keys[line] >> column & 1:
                state = REFUSED
            line_keys[line] |= 1 << column
        elif action == LINE_TEXT_END:
            line_begins[column, line] = begin
            line_ends[column, line] = at + value
        elif action == LINE_CODE:
            line_codes[column, line] = value
        elif action == LINE_DIGIT:
            number = number * value + data[at] - 48
            line_codes[column, line] = number
            if number > INT32_MAX:
                state = REFUSED
        elif action == LINE_CLOSE:
            closed = True
        elif action == REFUSE:
            closed = False
        elif action == LINE_END:
            if closed and line_keys[line] & _LINE_REQUIRED == _LINE_REQUIRED:
                taken[line] = True
                sizes[line] = row - first_row
                first_row = row
            row = first_row
            read = bounds[row]
            closed = False
            line += 1
            starts[line] = at + 1
