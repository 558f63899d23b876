"""The Flink options that a script's environments begin with."""

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.datastream.python_options import PYTHON_FILES


def with_python_files(configuration: EffectiveConfiguration, py_files: str | None) -> dict[str, str]:
    """The configuration's options for scripts, over which `py_files` (FILE,…) win.

    Source: CliFrontend.getEffectiveConfiguration: options of a program come after files and -D.
    """
    return {**configuration.scripts, PYTHON_FILES: py_files} if py_files else dict(configuration.scripts)
