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
    found: list[str] = []
    for one in context.command.params:
        value = context.params.get(str(one.name))
        source = context.get_parameter_source(str(one.name))
        if one.param_type_name != "option" or one.name in without or value in (None, False, (), []):
            continue
        if source is not None and source.name in _FROM_ELSEWHERE:
            continue
        name = max(one.opts, key=len)
        values = value if isinstance(value, list | tuple) else [value]
        if value is True:
            found.append(name)
        elif name.startswith("--"):
            found.extend(f"{name}={each}" for each in values)
        else:
            found.extend(f"{name}{each}" for each in values)
    return found
