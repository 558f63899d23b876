"""Files of a client that a script in cluster mode needs, under the paths that they have where it runs."""

from pathlib import Path

from penstock.engine.datastream.python_options import (
    FILE_DELIMITER,
    PARAM_DELIMITER,
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.engine.spark.submitted_driver import JOB_FOLDER


class ShippedFiles:
    """Files that go with a job; those that are missing are listed, all together."""

    def __init__(self) -> None:
        self.entries = dict[str, Path]()  #: by name in the archive of the job
        self.missing = list[str]()

    def ship(self, option: str, path: str) -> str:
        """Where the job finds `path`, of `option`; a URL is left to it."""
        if "://" in path and not path.startswith("file://"):
            return path
        local = Path(path.removeprefix("file://"))
        if not local.exists():
            self.missing.append(f"{option} {path}: no such file")
        name = f"files/{len(self.entries)}/{local.resolve().name}"
        self.entries[name] = local
        return f"{JOB_FOLDER}/{name}"

    def ship_option(self, key: str, text: str) -> str:
        """The value of a Flink option where the job runs: paths of Python files, archives, requirements."""
        if key == PYTHON_FILES:
            paths = filter(None, text.split(FILE_DELIMITER))
            return FILE_DELIMITER.join(self.ship(key, path) for path in paths)
        if key == PYTHON_ARCHIVES:
            return FILE_DELIMITER.join(self._archive(one) for one in filter(None, text.split(FILE_DELIMITER)))
        if key == PYTHON_REQUIREMENTS:
            paths = filter(None, text.split(PARAM_DELIMITER))
            return PARAM_DELIMITER.join(self.ship(key, path) for path in paths)
        return text

    def _archive(self, text: str) -> str:
        path, delimiter, folder = text.partition(PARAM_DELIMITER)
        return f"{self.ship(PYTHON_ARCHIVES, path)}{delimiter}{folder}"
