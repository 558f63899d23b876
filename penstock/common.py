"""Types, rows, watermarks, configuration and schemas: what jobs share. PyFlink's `pyflink.common`."""

from penstock.engine.pyflink.common import *
from penstock.operators.formats.data_types import DataTypes as DataTypes
