"""Descriptions of options, as pyflink.common.config_options names them."""

from penstock.operators.common.configuration import ConfigOption, ConfigOptions

__all__ = ["ConfigOption", "ConfigOptions"]
