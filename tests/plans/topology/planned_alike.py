"""One input through every planner as a user plans it: nothing lost, nothing raised, the same answers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.store.open_plan import open_plan

PLANNERS: Mapping[str, Sequence[str]] = {
    "columnar": ("--planner", "columnar"),
    "columnar on Spark": ("--planner", "columnar", "--conf", "spark.sql.shuffle.partitions=4"),
    "joins on Spark": ("--planner", "joins"),
}
"""How `penstock plan` is called for each; any setting for Spark takes planning there."""


def command(*arguments: object, codes: Iterable[int] = (0,)) -> str:
    """What a command prints; it neither fails nor shows a traceback."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in codes, (arguments, result.exit_code, result.stderr[-2_000:])
    assert "Traceback" not in result.stderr, result.stderr[-2_000:]
    return result.stdout


def plan_alike(
    lines: Sequence[bytes], folder: Path, planners: Iterable[str], *options: str
) -> tuple[int, int]:
    """Plans a file of these lines with each planner, and compares all that readers see; (planned, rejected).

    Every line that is not blank is planned or rejected, once: by the numbers of the lines, in the export, in
    `show` and in `rejected`. AssertionError says where it is not so, or where planners differ.
    """
    source = folder / "lines.jsonl"
    source.write_bytes(b"".join(line + b"\n" for line in lines))
    first = lines[0].removeprefix(b"\xef\xbb\xbf")
    came_in = [number for number, line in enumerate([first, *lines[1:]], 1) if line.strip()]
    seen = {}
    for planner in planners:
        store = folder / planner.replace(" ", "_")
        command("plan", source, "--out", store, *PLANNERS[planner], *options, codes=(0, 7))
        plan = open_plan(str(store))
        planned, rejected = (plan.table(name).collect() for name in ("topologies", "rejected"))
        assert sorted([*planned["source_line"], *rejected["source_line"]]) == came_in, planner
        exported = command("export", store).split("\n")[:-1]
        assert len(exported) == len(came_in), planner
        refused = command("rejected", store, "--json").split("\n")[:-1]
        assert len(refused) == len(rejected), planner
        shown = dict(row.split("\t") for row in command("show", store).split("\n") if row.count("\t") == 1)
        counts = {"planned": f"{len(planned):,}", "refused": f"{len(rejected):,}"}
        assert {key: shown[key] for key in counts} == counts, planner
        assert max(len(message) for message in rejected["message"]) < 50_000
        seen[planner] = {"exported": exported, "refused": refused}
    reference, *others = seen
    for planner in others:
        for what, texts in seen[planner].items():
            differing = [
                pair for pair in zip(seen[reference][what], texts, strict=True) if pair[0] != pair[1]
            ]
            assert not differing, (planner, what, len(differing), [t[:1_500] for t in differing[0]])
    return len(planned), len(rejected)
