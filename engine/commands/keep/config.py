"""`penstock config`: what is configured, and where."""

from typing import Annotated

import orjson
import typer
from rich.table import Column

from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.configuration.describe_settings import (
    DescribedSetting,
    describe_known,
    describe_settings,
    properties_in_use,
    properties_of_environment,
)
from penstock.engine.configuration.find_configuration import configuration_directory
from penstock.engine.configuration.merge_settings import OPTIONS, closest_key, option_of
from penstock.engine.output.people import print_table
from penstock.engine.output.redaction import remember_secrets
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.rules import shorten


def command(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only this key, with all that is known of it.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every option: its value, its default, and where the value comes from.

    Values come from defaults, from the YAML files of the configuration directory, from -D and from
    environment variables; of Spark's properties also from spark-defaults.conf. Later ones win. Secrets are
    not shown.
    """
    configuration = given_configuration(config_dir, define)
    directory = configuration_directory(config_dir)
    properties, environment = properties_in_use(), properties_of_environment()
    remember_secrets({setting.key: setting.text for setting in (*properties, *environment)})
    described = describe_settings(configuration, environment, properties)
    if key is not None:
        _show_key(_describe_key(key, described), json)
    elif json:
        settings = [described_setting.as_json() for described_setting in described]
        listing = {"directory": str(directory.path), "named_by": directory.named_by, "settings": settings}
        write_texts([orjson.dumps(listing, option=orjson.OPT_INDENT_2).decode()], None)
    else:
        say(f"YAML files of {directory.path} ({directory.named_by})")
        rows = [
            (
                described_setting.key,
                described_setting.value,
                described_setting.default,
                _place(described_setting),
            )
            for described_setting in described
        ]
        print_table((Column("key"), Column("value"), Column("default"), Column("from")), rows)


def _place(setting: DescribedSetting) -> str:
    return f"{setting.place} ({setting.note})" if setting.note else setting.place


def _describe_key(key: str, described: list[DescribedSetting]) -> DescribedSetting:
    """What is known of a key. ConfigurationError if nobody knows it."""
    option = option_of(key)
    wanted = key if option is None else option.key
    setting = next((setting for setting in described if setting.key == wanted), None) or describe_known(
        wanted
    )
    if setting is None:
        closest = closest_key(key, frozenset(option.key for option in OPTIONS))
        raise ConfigurationError(
            f"{shorten(key)} is an unknown key",
            f"did you mean {closest}?" if closest else "penstock config lists the options",
        )
    return setting


def _show_key(setting: DescribedSetting, json: bool) -> None:
    if json:
        write_texts([orjson.dumps(setting.as_json(), option=orjson.OPT_INDENT_2).decode()], None)
        return
    say(f"{setting.key}: {setting.meaning}")
    rows = [
        ("value", setting.value),
        ("from", setting.place),
        ("default", setting.default),
        ("allowed", setting.allowed),
        ("deprecated keys", ", ".join(setting.deprecated)),
        ("note", setting.note),
        *(("overridden", f"{value} ({place})") for place, value in setting.overridden),
    ]
    print_table((Column(""), Column("")), [(name, text) for name, text in rows if text or name == "value"])
