"""`penstock diff --require`: which verdicts it lets pass, and the error for those that are worse."""

from enum import StrEnum

from penstock.engine.diff.savepoint_verdicts import VERDICT_WORDS, Verdict
from penstock.plans.errors import WorseVerdictError
from penstock.plans.printable import MOST_OF_A_NAME, limited

_SHOWN = 5
_KEEP = "give operators with state the uid, or the uid hash, that they had; keep their max parallelism"


class Required(StrEnum):
    """What --require takes."""

    RESTORES = Verdict.RESTORES.value
    ALLOW_NON_RESTORED = Verdict.ALLOW_NON_RESTORED.value
    REFUSED = Verdict.REFUSED.value


class Worse:
    """Counts verdicts that are worse than required, and keeps the first names."""

    def __init__(self, required: Required | None) -> None:
        self._required = required
        self._number = 0
        self._shown: list[str] = []
        self._unnamed = 0
        self._line_of_unnamed = ""
        self._hint = "what is not planned is refused by Flink or Penstock: the output says why"

    def add(self, name: str, verdict: Verdict | None) -> None:
        """Take one verdict into account; None is never worse."""
        if self._required is None or verdict is None:
            return
        if verdict.rank <= Verdict(self._required.value).rank:
            return
        self._number += 1
        if verdict != Verdict.NOT_PLANNED:
            self._hint = _KEEP
        if len(self._shown) < _SHOWN:
            self._shown.append(f"\n  {limited(name, MOST_OF_A_NAME)!r}: {VERDICT_WORDS[verdict]}")

    def add_unnamed(self, source: str, number: int) -> None:
        """Take refused inputs of the new side into account that no name pairs: as not planned."""
        if self._required is None or number <= 0:
            return
        inputs = "1 more refused input" if number == 1 else f"{number:,} more refused inputs"
        self._unnamed = number
        self._line_of_unnamed = f"\n  {source}: {inputs} without a readable name, or with that of another"

    def raise_if_any(self, out_of: int, what: str) -> None:
        """WorseVerdictError if there were any; `out_of`: how many there were, `what`: of what, named ones."""
        number = self._number + self._unnamed
        if not number:
            return
        more = f"\n  and {self._number - _SHOWN:,} more" if self._number > _SHOWN else ""
        raise WorseVerdictError(
            f"{number:,} of {out_of + self._unnamed:,} {what} {'is' if number == 1 else 'are'} worse than "
            f"--require {self._required}:{''.join(self._shown)}{more}{self._line_of_unnamed}",
            self._hint,
        )
