"""Find the configuration in --config-dir, else PENSTOCK_CONF_DIR, else the installed spark-conf/."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.engine.configuration.effective_configuration import NOTHING_CONFIGURED, EffectiveConfiguration
from penstock.engine.spark.spark_conf import spark_conf_dir
from penstock.plans.errors import ConfigurationError

VARIABLE = "PENSTOCK_CONF_DIR"


class Directory(NamedTuple):
    """A directory, and the option or variable that names it."""

    path: Path
    named_by: str


def configuration_directory(path: str | None) -> Directory:
    """Return the directory of YAML files. Raises ConfigurationError if a named path is not a directory."""
    named = os.environ.get(VARIABLE)
    if path is None and not named:
        return Directory(spark_conf_dir(), "installed")
    directory = (
        Directory(Path(path), "--config-dir") if path is not None else Directory(Path(named or ""), VARIABLE)
    )
    if not directory.path.is_dir():
        problem = "not a directory" if os.path.lexists(directory.path) else "no such directory"
        raise ConfigurationError(
            f"{directory.named_by} {directory.path}: {problem}", "name a directory of YAML files"
        )
    return directory


def find_configuration(
    config_dir: str | None = None, defines: Mapping[str, str] | None = None, place_of_defines: str = "-D"
) -> EffectiveConfiguration:
    """Load a directory's configuration, overridden by `defines`. Raises ConfigurationError with all errors.

    If nothing is configured, neither pydantic nor a YAML parser is imported.
    """
    directory = configuration_directory(config_dir).path
    if not defines and config_dir is None and not _holds_yaml(directory):
        return NOTHING_CONFIGURED
    from penstock.engine.configuration.load_configuration import load_configuration, yaml_files

    return load_configuration(yaml_files(directory), defines or {}, place_of_defines)


def _holds_yaml(directory: Path) -> bool:
    try:
        return any(name.lower().endswith((".yaml", ".yml")) for name in os.listdir(directory))
    except OSError:
        return True  # listing it reports the error
