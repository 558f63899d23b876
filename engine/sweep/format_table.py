"""Tables as papers and pages take them: LaTeX, Markdown and CSV."""

import csv
import io
import re
from collections.abc import Sequence

import polars as pl

from penstock.engine.sweep.table_format import TableFormat
from penstock.plans.printable import printable

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~]")


def formatted(rows: pl.DataFrame, form: TableFormat) -> str:
    """The table as text; numbers with four significant digits, but in CSV as they are."""
    if form is TableFormat.CSV:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(["" if value is None else value for value in row] for row in rows.iter_rows())
        return out.getvalue()
    numeric = [kind.is_numeric() for kind in rows.dtypes]
    cells = [[_text(value) for value in row] for row in rows.iter_rows()]
    return (_latex if form is TableFormat.LATEX else _markdown)(rows.columns, numeric, cells)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _latex(columns: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join("".join(_LATEX.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    kinds = "".join("r" if is_number else "l" for is_number in numeric)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", line(columns), r"\midrule", *map(line, rows),
            r"\bottomrule", r"\end{tabular}", "",
        ]
    )  # fmt: skip


def _markdown(columns: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_MARKDOWN.sub(r"\\\g<0>", cell) for cell in cells) + " |"

    rule = "|" + "|".join("---:" if is_number else "---" for is_number in numeric) + "|"
    return "\n".join([line(columns), rule, *map(line, rows), ""])
