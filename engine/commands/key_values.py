"""KEY=VALUE items of the command line, and Spark settings out of them and a file."""

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.plans.errors import ConfigurationError

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
]
PropertiesFile = Annotated[
    str | None,
    typer.Option(
        "--properties-file",
        metavar="FILE",
        help="Spark settings as spark-defaults.conf has them; --conf overrides. Secrets belong here: all "
        "users of a machine see command lines.",
    ),
]

ConfigDir = Annotated[
    str | None,
    typer.Option(
        "--config-dir",
        metavar="DIR",
        help="Read every YAML file in DIR: options of Flink, Spark and Penstock. Default: PENSTOCK_CONF_DIR, "
        "else the installed spark-conf/.",
    ),
]
Define = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="An option, over those of files; may be repeated."),
]


def given_configuration(config_dir: str | None, define: Sequence[str] | None) -> EffectiveConfiguration:
    """What --config-dir and -D say. Raises ConfigurationError with all that is wrong."""
    return find_configuration(config_dir, key_values(define, "-D"))


def key_values(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """KEY=VALUE items as a dict; ConfigurationError naming all that are not."""
    pairs = [item.partition("=") for item in items or []]
    wrong = ["".join(pair) for pair in pairs if not pair[0].strip() or not pair[1]]
    if wrong:
        shown = ", ".join(redact_value(item, item) for item in wrong)
        raise ConfigurationError(f"{option} {shown}: not KEY=VALUE", f"write {option} key=value")
    values = {key: value for key, _, value in pairs}
    remember_secrets(values)
    return values


def given_settings(properties_file: str | None, conf: Sequence[str] | None) -> dict[str, str]:
    """Spark settings of --properties-file, below those of --conf. Raises ConfigurationError."""
    from penstock.engine.spark.spark_conf import read_properties_file

    settings = {} if properties_file is None else read_properties_file(properties_file)
    remember_secrets(settings)
    return settings | {key.strip(): value.strip() for key, value in key_values(conf, "--conf").items()}
