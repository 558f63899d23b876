"""The Flink options that a script's environments begin with."""

from engine.configuration.effective_configuration import EffectiveConfiguration
from engine.configuration.setting import Level
from engine.datastream.python_options import PYTHON_FILES


def with_python_files(configuration: EffectiveConfiguration, py_files: str | None) -> dict[str, str]:
    """The configuration's options for scripts; `py_files` (FILE,…) win over files, and -D over `py_files`."""
    options = dict(configuration.scripts)
    set_there = configuration.settings.get(PYTHON_FILES)
    if py_files and (set_there is None or set_there.level < Level.DEFINE):
        options[PYTHON_FILES] = py_files
    return options
