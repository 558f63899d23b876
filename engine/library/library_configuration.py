"""The configuration of a library call."""

import os
from collections.abc import Mapping

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.library.check_arguments import path, strings

Config = Mapping[str, str] | str | os.PathLike[str] | None
"""Options by key, or a directory of YAML files."""


def library_configuration(config: Config) -> EffectiveConfiguration:
    """The configuration that `config` gives.

    A map of options is over the files of PENSTOCK_CONF_DIR, as -D is in a command; a path is of a directory
    of YAML files, as --config-dir. Raises ConfigurationError with all that is wrong.
    """
    if config is None or isinstance(config, Mapping):
        return find_configuration(None, strings("config", config), "config")
    return find_configuration(path("config", config))
