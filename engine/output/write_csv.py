"""Write rows of texts as CSV to one file or to standard output, as they come."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.engine.output.pieces import may_be_terminal
from penstock.engine.output.write_lines import open_target
from penstock.plans.printable import printable

_CHARACTERS_AT_A_TIME = 1 << 16


def write_csv(names: Sequence[str], rows: Iterable[Sequence[str | None]], target: Path | None) -> None:
    """A line of `names`, and one for each row, as RFC 4180 has them but for line feeds; None is empty.

    Texts are written as they are, but on a terminal printable. `target`: a file as of replace_file,
    gzip-compressed if it ends in .gz; None is standard output. Raises ConfigurationError and MachineError.
    """
    shown = target is None and may_be_terminal(sys.stdout)
    with open_target(target) as out:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")

        def flush() -> None:
            out.write(lines.getvalue().encode(errors="backslashreplace"))
            lines.seek(0)
            lines.truncate()

        writer.writerow([printable(name) for name in names] if shown else names)
        for row in rows:
            writer.writerow([value and printable(value) for value in row] if shown else row)
            if lines.tell() > _CHARACTERS_AT_A_TIME:
                flush()
        flush()
