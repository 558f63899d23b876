"""One key as it was set: its text, and where."""

from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """Where a setting comes from; a higher one wins."""

    PROPERTIES = 1  #: spark-defaults.conf
    FILE = 2  #: a YAML file of the directory
    DEFINE = 3  #: -D key=value, or `config` of a library call
    ENVIRONMENT = 4  #: an environment variable


class Setting(NamedTuple):
    """A key (as it was written), its text, and where it is: "conf/a.yaml:3", "-D", "PENSTOCK_JARS".

    `is_list`: the text is a list in YAML.
    """

    key: str
    text: str
    level: Level
    place: str
    is_list: bool = False
