"""Penstock itself, for machines of a cluster: what its wheel holds, in a zip that Spark unpacks."""

from collections.abc import Mapping
from pathlib import Path

from penstock.engine.machine.available_memory import import_root
from penstock.engine.spark.class_archive import write_archive
from penstock.engine.spark.spark_conf import spark_conf_dir
from penstock.engine.spark.submitted_driver import WHEEL_FOLDER
from penstock.plans.installation import DISTRIBUTION, own_version

_ARCHIVES, _ARCHIVES_ON_YARN = "spark.archives", "spark.yarn.dist.archives"
_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_SPARK_CONF = "penstock/engine/spark-conf"


def write_wheel(target: Path) -> None:
    """Write this installation as `target`, whether it comes from a wheel or is a checkout.

    What Penstock needs is not in it: the Python of the cluster has to have that.
    """
    root = import_root()
    entries: dict[str, Path | str] = {
        f"penstock/{part.name}": part.resolve()  # a checkout has links to the packages
        for part in (root / "penstock").iterdir()
        if part.name != "__pycache__"
    }
    if not (root / _SPARK_CONF).is_dir():  # a checkout
        entries[_SPARK_CONF] = spark_conf_dir()
    name = f"{DISTRIBUTION.replace('-', '_')}-{own_version()}"
    entries[f"{name}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {own_version()}\n"
    )
    write_archive(target, entries)


def archive_settings(master: str, settings: Mapping[str, str], wheel: Path, *others: str) -> dict[str, str]:
    """Settings over `settings` that unpack `wheel`, and `others` (PATH#FOLDER), where workers find them.

    YARN unpacks archives itself; where spark.archives names them, Spark's driver would do so once more.
    """
    key = _ARCHIVES_ON_YARN if master == "yarn" else _ARCHIVES
    archives = [f"{wheel}#{WHEEL_FOLDER}", *others, *filter(None, [settings.get(key)])]
    paths = [WHEEL_FOLDER, *filter(None, [settings.get(_PYTHON_PATH)])]
    return {key: ",".join(archives), _PYTHON_PATH: ":".join(paths)}
