"""Descriptions of options. Source: pyflink.common.config_options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """Key, class of the value, and default (None: no default) of an option."""

    key: str
    value_type: type[T]
    default: T | None = None


class ConfigOptions:
    """Makes options: `ConfigOptions.key("tmp.dir").string_type().default_value("/tmp")`."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """An option of that key, still without type."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option without type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Its value is a bool."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Its value is an int of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Its value is an int of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Its value is a float of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Its value is a float."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Its value is a str."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(Generic[T]):
        """An option without default."""

        def __init__(self, key: str, value_type: type[T]) -> None:
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """The option, with this default."""
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T]:
            """The option, without default."""
            return ConfigOption(self._key, self._value_type)
