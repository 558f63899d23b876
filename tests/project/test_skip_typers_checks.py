"""Values of the command line are the same whether Typer checks them or they are plain enough to be taken."""

from enum import StrEnum
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.plans.vocabulary import Layer


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


def values_of(arguments: list[str], cls: type[typer.core.TyperCommand]) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.command(cls=cls)
    def command(
        inputs: list[str],
        names: Annotated[list[str] | None, typer.Option("--name")] = None,
        until: Layer = Layer.SLOTS,
        size: Size | None = None,
        count: int = 3,
        few: Annotated[int, typer.Option(min=1, max=9)] = 1,
        upper: Annotated[str, typer.Option(parser=str.upper)] = "A",
        text: str | None = None,
        ratio: float = 0.5,
        strict: bool = False,
    ) -> None:
        print(repr((inputs, names, until, size, count, few, upper, text, ratio, strict)))

    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        [],
        ["a", "b", "--name", "x", "--name", ""],
        ["a", "--until", "job_graph", "--size", "small", "--count", "12", "--strict"],
        ["a", "--until", "JOB_GRAPH"],
        ["a", "--size", ""],
        ["a", "--count", " 7 "],
        ["a", "--count", "-1"],
        ["a", "--count", "1_000"],
        ["a", "--count", "1.0"],
        ["a", "--count", "many"],
        ["a", "--few", "0"],
        ["a", "--few", "4"],
        ["a", "--upper", "b", "--text", "", "--ratio", "2"],
        ["a", "--ratio", "x"],
        ["a\udcff"],
        ["a", "--text", "\udcff"],
    ],
)
def test_plain_values_are_what_typer_makes_of_them(arguments):
    assert values_of(arguments, PlainCommand) == values_of(arguments, typer.core.TyperCommand)
