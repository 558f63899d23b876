"""KEY=VALUE items of the command line, and Spark settings from them and a file."""

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.plans.errors import ConfigurationError

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; repeatable."),
]
PropertiesFile = Annotated[
    str | None,
    typer.Option(
        "--properties-file",
        metavar="FILE",
        help="Spark settings in the format of spark-defaults.conf; --conf overrides them. Put secrets here: "
        "all users of a machine see command lines.",
    ),
]

ConfigDir = Annotated[
    str | None,
    typer.Option(
        "--config-dir",
        metavar="DIR",
        help="Read every YAML file in DIR: options for Flink, Spark and Penstock. Default: "
        "PENSTOCK_CONF_DIR, else the installed spark-conf/.",
    ),
]
Define = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="An option; overrides files; repeatable."),
]


def given_configuration(config_dir: str | None, define: Sequence[str] | None) -> EffectiveConfiguration:
    """Return the configuration of --config-dir and -D. Raises ConfigurationError with all errors."""
    return find_configuration(config_dir, key_values(define, "-D"))


def key_values(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse KEY=VALUE items into a dict. Raises ConfigurationError that lists all other items."""
    pairs = [item.partition("=") for item in items or []]
    wrong = ["".join(pair) for pair in pairs if not pair[0].strip() or not pair[1]]
    if wrong:
        shown = ", ".join(redact_value(item, item) for item in wrong)
        raise ConfigurationError(f"{option} {shown}: must be KEY=VALUE", f"write {option} key=value")
    values = {key: value for key, _, value in pairs}
    remember_secrets(values)
    return values


def given_settings(properties_file: str | None, conf: Sequence[str] | None) -> dict[str, str]:
    """Return the Spark settings of --properties-file, overridden by --conf. Raises ConfigurationError."""
    from penstock.engine.spark.spark_conf import read_properties_file

    settings = {} if properties_file is None else read_properties_file(properties_file)
    remember_secrets(settings)
    return settings | {key.strip(): value.strip() for key, value in key_values(conf, "--conf").items()}
