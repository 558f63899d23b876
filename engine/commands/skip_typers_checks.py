"""Read plain values of the command line without Typer's checks.

Typer checks every value, defaults too, with pydantic, whose import takes a tenth of the time of a small plan.
"""

import inspect
import re
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

# The options of a command as given, to start the same command again.


ARGUMENTS = "penstock.arguments"
"""Key of a context's `meta` for the arguments after the command's name, as given."""

_FROM_ELSEWHERE = ("DEFAULT", "DEFAULT_MAP")


def given_options(context: typer.Context, without: Collection[str] = ()) -> list[str]:
    """Return the given options and their values as command-line words, except parameters in `without`.

    Option and value share a word (--to=STORE, -pN), so that no value looks like an option.
    """
    arguments: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        source = context.get_parameter_source(str(parameter.name))
        if (
            parameter.param_type_name != "option"
            or parameter.name in without
            or value in (None, False, (), [])
        ):
            continue
        if source is not None and source.name in _FROM_ELSEWHERE:
            continue
        name = max(parameter.opts, key=len)
        values = value if isinstance(value, list | tuple) else [value]
        if value is True:
            arguments.append(name)
        elif name.startswith("--"):
            arguments.extend(f"{name}={each}" for each in values)
        else:
            arguments.extend(f"{name}{each}" for each in values)
    return arguments


Parameter = TyperArgument | TyperOption


class PlainCommand(TyperCommand):
    """A command that takes plain values, and shows its function's whole docstring as its help.

    Typer's extension point for both is a class.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: description, arguments and options, then examples and exit codes."""
        self.help, self.epilog = _help_of(self.callback)
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including Typer's own."""
        params = super().get_params(ctx)
        skip_typers_checks(params)
        return params


_ELSEWHERE = "penstock --help lists all exit codes"


def _help_of(function: Any) -> tuple[str, str]:
    """The description of a command, and what follows its options, from the docstring of its function.

    Paragraphs are lines, which Rich breaks as the terminal is wide; sections keep their lines.
    """
    from rich.markup import escape

    said = (inspect.getdoc(function) or "").partition("\n\nSource: ")[0]
    description, *sections = re.split(r"\n\n(?=Examples:|Exit codes:)", said)
    if not any(section.startswith("Exit codes:") for section in sections):
        sections.append(f"Exit codes: {_ELSEWHERE}")
    else:
        sections.append(f"    others: {_ELSEWHERE}")
    paragraphs = "\n\n".join(" ".join(paragraph.split()) for paragraph in description.split("\n\n"))
    return escape(paragraphs), escape("\n\n".join(sections).replace("\n\n    others", "\n    others"))


def skip_typers_checks(parameters: Iterable[Any]) -> None:
    """Let `parameters` take plain values; Typer still checks all others and reports errors."""
    for parameter in parameters:
        # An attribute hides the method of that name, which still handles other values.
        vars(parameter)["get_runtime_param"] = _PlainValueReader


class _PlainValueReader:
    """Provides the value of a parameter; Typer requires an object with method `coerce`."""

    def coerce(self, value: Any, param: Parameter, ctx: Any) -> Any:
        """Return the value for the command. Raises Typer's errors."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        plain = _plain(value, param)
        if plain is None:
            return type(param).get_runtime_param(param).coerce(value, param=param, ctx=ctx)
        return plain


def _plain(value: Any, param: Parameter) -> Any:
    """Return the value of an option's text; None if Typer has to check it."""
    kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, kind):
        return value
    if info.parser is not None:
        return None
    if kind == list[str] and isinstance(value, list | tuple):
        return list(value) if all(map(_is_text, value)) else None
    if kind is str:
        return value if _is_text(value) else None
    if kind is int:
        number = int(value) if type(value) is int or _is_number(value) else None
        return number if number is not None and _is_between(number, info.min, info.max) else None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((member for member in kind if member.value == value), None)
    return None


def _is_between(number: int, least: float | None, most: float | None) -> bool:
    return (least is None or least <= number) and (most is None or number <= most)


def _is_number(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19


def _is_text(value: object) -> bool:
    """Return whether this is text without surrogates, which represent bytes of another encoding."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)
