"""The folder that --out names, made."""

import os

from penstock.engine.machine.machine_error import takes_no_files
from penstock.plans.errors import ConfigurationError


def make_output_folder(folder: str | os.PathLike[str]) -> None:
    """Make `folder`, and those above it, unless it is there.

    Raises ConfigurationError where a file is in the way, MachineError where the system takes no folder.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigurationError(f"--out {folder}: {error.filename} is no directory") from error
    except FileNotFoundError as error:  # of a name that is new, in a folder that is there, as in /proc
        above = os.path.dirname(os.path.abspath(error.filename))
        raise takes_no_files(above, f"--out {folder}") from error
