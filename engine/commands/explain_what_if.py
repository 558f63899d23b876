"""`penstock explain STORE --what-if REASON`: what fusing edges would save."""

import orjson
from rich.table import Column

from penstock.engine.commands.reads_plan import reads_plan
from penstock.engine.commands.what_if import CHANGES, FIGURES, NEEDED, WhatIf, what_if
from penstock.engine.output.people import print_table
from penstock.engine.output.progress import progress
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.open_plan import open_plan
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.not_chainable_reasons import NotChainableReason


@reads_plan()
def explain_what_if(*, store: str, named: str, version: int | None, json: bool) -> None:
    """Print what the topologies of a version would save without the reason `named`.

    Raises ConfigurationError for what is no reason, or none that can be changed; StoreError.
    """
    reason = next((reason for reason in CHANGES if reason == named.upper()), None)
    if reason is None:
        known = named.upper() in list(NotChainableReason)
        what = "no setting makes it true" if known else "there is no such reason"
        raise ConfigurationError(f"--what-if {named}: {what}", f"one of {', '.join(CHANGES)}")
    plan = open_plan(store, version)
    if not plan.has(*NEEDED):
        raise StoreError(
            f"{store} version {plan.version.version} has no slots", "plan it again with --until slots"
        )
    with progress(1) as shown:

        def report(part: int, parts: int) -> None:
            shown.note(f"plan part {part:,} of {parts:,}")

        shown("find edges")
        found = what_if(plan, reason, report)
    if json:
        said = {"reason": reason.value, "change": CHANGES[reason].meaning, **found._asdict()}
        for when in ("now", "then"):
            said[when] = {name.replace(" ", "_"): value for name, value in said[when].items()}
        write_texts([orjson.dumps(said).decode()], None)
    else:
        _tell(reason, found)


def _tell(reason: NotChainableReason, found: WhatIf) -> None:
    have = "edge has" if found.edges == 1 else "edges have"
    say(f"{reason.value}: {found.edges:,} {have} it; nothing else keeps {found.alone:,} of them apart")
    say(f"the change: {CHANGES[reason].meaning}")
    if not found.alone:
        return
    say(f"topologies planned again with it: {found.topologies:,}")
    if found.refused:
        say(f"Flink would refuse {found.refused:,} of them then: they are not counted")
    say()
    rows = [
        (name, f"{found.now[name]:,}", f"{found.then[name]:,}", f"{found.then[name] - found.now[name]:+,}")
        for name in FIGURES
    ]
    print_table([Column(""), *(Column(name, justify="right") for name in ("now", "then", "change"))], rows)
