"""The options of a command as they were given, to start the same command once more."""

from collections.abc import Collection

import typer

ARGUMENTS = "penstock.arguments"
"""The key of a context's `meta` for the arguments after the command's name, as they were given."""

_FROM_ELSEWHERE = ("DEFAULT", "DEFAULT_MAP")


def given_options(context: typer.Context, without: Collection[str] = ()) -> list[str]:
    """Options and their values as a command line has them, but for the parameters called `without`.

    Each value is in one argument with its option (--to=STORE, -pN), so that no value looks like an option.
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
