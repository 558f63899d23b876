"""Options by key, set as one type and read as another. Source: pyflink.common.configuration."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.common.arguments import require_text
from penstock.operators.common.flink_yaml import load_yaml
from penstock.operators.common.java_hash import Hashes, string_hashes

# Definitions of options. Source: pyflink.common.config_options


T = TypeVar("T")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """Key, class of the values and default of an option; a default of None: it has none."""

    key: str
    value_type: type[T]
    default: T | None = None


class ConfigOptions:
    """Makes options from a key, a type and a default.

    Examples:
        >>> from penstock.common import ConfigOptions, Configuration
        >>> folder = ConfigOptions.key("tmp.dir").string_type().default_value("/tmp")
        >>> Configuration().get_string(folder.key, folder.default)
        '/tmp'
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start an option.

        Args:
            key: Its key, such as "tmp.dir".

        Returns:
            ConfigOptions.OptionBuilder: Next takes the type, such as `string_type()`.
        """
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option without a type; its methods set one."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Set the type to bool."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Set the type to int, of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Set the type to int, of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Set the type to float, of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Set the type to float."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Set the type to str."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(Generic[T]):
        """An option with a type; its methods return the ConfigOption."""

        def __init__(self, key: str, value_type: type[T]) -> None:
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Return the option with a default.

            Args:
                value: The default, of the option's type.

            Returns:
                ConfigOption: The option.
            """
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T]:
            """Return the option without a default."""
            return ConfigOption(self._key, self._value_type)


# Iteration order of Java's HashMap: by the place of a key's hash in its table
#
# Source: java.util.HashMap; org.apache.flink.util.CollectionUtil.newHashMapWithExpectedSize, with which
# org.apache.flink.api.common.typeutils.base.MapSerializer creates its maps. Planners on tables have the same
# rule in `set_managed_memory_fractions`.


DEFAULT_TABLE = 16
"""Places of a HashMap that was created without a size."""


def hash_map_order(hashes: Hashes, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return positions of the entries of many maps, one map after the other, in the order of each HashMap.

    `hashes` are the hashCodes of all keys, `sizes` the number of keys of each map, for which it was created.
    """
    maps = np.repeat(np.arange(len(sizes)), sizes)
    order: npt.NDArray[np.int64] = np.lexsort(
        (_places(hashes, np.repeat(expected_tables(sizes), sizes)), maps)
    )
    return order


def order_in_table(hashes: Hashes, table: int) -> npt.NDArray[np.int64]:
    """Return positions of the keys of one map that began with `table` places.

    The number of places doubles at three quarters.
    """
    while len(hashes) * 4 > table * 3:
        table *= 2
    return np.argsort(_places(hashes, np.int64(table)), kind="stable")


def expected_tables(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of maps created for these numbers of entries, the least power of two that is enough.

    A map is at most three quarters full. Up to a size of 2, Flink adds one.
    """
    capacities = np.where(sizes <= 2, sizes + 1, -(-sizes * 4 // 3))
    tables: npt.NDArray[np.int64] = 1 << np.ceil(np.log2(np.maximum(capacities, 1))).astype(np.int64)
    return tables


def _places(hashes: Hashes, tables: npt.NDArray[np.int64] | np.int64) -> npt.NDArray[np.uint32]:
    spread = hashes ^ (hashes >> np.uint32(16))
    places: npt.NDArray[np.uint32] = spread & (tables - 1).astype(np.uint32)
    return places


# Java checks char by char: a digit beyond the basic plane is two chars that are not digits.
_INTEGER = re.compile(r"[-+]?(?:(?![\U00010000-\U0010ffff])\d)+")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fFdD]?|[-+]?(?:NaN|Infinity)")


class Configuration:
    """Options by key.

    Values that were set as text are read as numbers if they are numbers. Configurations are equal if keys and
    values are; a number differs from its text.

    Args:
        other: A Configuration whose options are copied; default: no options.

    Examples:
        >>> from penstock.common import Configuration
        >>> configuration = Configuration().set_integer("parallelism.default", 4)
        >>> configuration.get_string("parallelism.default", "")
        '4'
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._entries: dict[str, Any] = {} if other is None else dict(other._entries)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        """Make a configuration.

        Args:
            map: Strings by key.

        Returns:
            Configuration: With these options.

        Raises:
            TypeError: A key or value is not a string.
        """
        configuration = Configuration()
        for key, value in map.items():
            configuration.set_string(key, value)
        return configuration

    def get_string(self, key: str, default_value: str | None) -> str | None:
        """Return an option as text.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            str: Its value.
        """
        require_text(key, "key")
        return self._text(key) if key in self._entries else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set text.

        Args:
            key: Its key.
            value: A string.

        Returns:
            Configuration: This configuration.

        Raises:
            TypeError: Not strings.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"key and value must be str, got {key!r}: {value!r}")
        self._entries[key] = value
        return self

    @staticmethod
    def parse_list_value(value: str | None) -> list[Any]:
        """Split text into a list.

        Args:
            value: A YAML list, or text between semicolons.

        Returns:
            list[str]: The parts.
        """
        return parse_list(value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return an option as an integer of 64 bits.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            int: Its value.

        Raises:
            ValueError: It is other text.
        """
        if key not in self._entries:
            return default_value
        value = self._entries[key]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        text = self._text(key)
        number = parse_integer(text)
        if number is None or not -(2**63) <= number < 2**63:
            raise ValueError(f"option {key!r} must be an integer of 64 bits, got {text!r}")
        return number

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an integer.

        Args:
            key: Its key.
            value: An int of 64 bits.

        Returns:
            Configuration: This configuration.
        """
        self._entries[key] = value
        return self

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return an option as a bool.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            bool: Its value.

        Raises:
            ValueError: It is other text.
        """
        if key not in self._entries:
            return default_value
        value = self._entries[key]
        if isinstance(value, bool):
            return value
        text = self._text(key)
        if text.upper() not in ("TRUE", "FALSE"):
            raise ValueError(f"option {key!r} must be true or false, got {text!r}")
        return text.upper() == "TRUE"

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a bool.

        Args:
            key: Its key.
            value: A bool.

        Returns:
            Configuration: This configuration.
        """
        self._entries[key] = value
        return self

    def get_float(self, key: str, default_value: float) -> float:
        """Return an option as a float.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            float: Its value.

        Raises:
            ValueError: It is other text.
        """
        if key not in self._entries:
            return float(default_value)
        value = self._entries[key]
        if isinstance(value, float):
            return value
        try:
            return parse_float(self._text(key))
        except ValueError as error:
            raise ValueError(f"option {key!r}: {self._text(key).strip()!r} {error}") from None

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a float.

        Args:
            key: Its key.
            value: A float.

        Returns:
            Configuration: This configuration.
        """
        self._entries[key] = float(value)
        return self

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return an option that was set as bytes.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            bytearray: Its value.
        """
        if key not in self._entries:
            return default_value
        value = self._entries[key]
        if not isinstance(value, (bytes, bytearray)):
            raise ValueError(f"option {key!r} must be bytes, got {self._text(key)!r}")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes.

        Args:
            key: Its key.
            value: A bytearray.

        Returns:
            Configuration: This configuration.
        """
        self._entries[key] = bytes(value)
        return self

    def key_set(self) -> set[str]:
        """Return all keys."""
        return set(self._entries)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all values into a dict.

        Args:
            target_dict: The dict.
        """
        target_dict.update(self._entries)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Set all options of another configuration.

        Args:
            other: A Configuration.
            prefix: Added before its keys.

        Returns:
            Configuration: This configuration.
        """
        for key, value in other._entries.items():
            self._entries[(prefix or "") + key] = value
        return self

    def contains_key(self, key: str) -> bool:
        """Tell whether an option is set.

        Args:
            key: Its key.

        Returns:
            bool: Whether it is.
        """
        return key in self._entries

    def to_dict(self) -> dict[str, str]:
        """Return all values as text, by key."""
        return {key: self._text(key) for key in self._in_java_order()}

    def remove_config(self, key: str) -> bool:
        """Remove an option.

        Args:
            key: Its key.

        Returns:
            bool: Whether it was set.
        """
        return self._entries.pop(key, None) is not None

    def __deepcopy__(self, memodict: dict[int, Any] | None = None) -> Configuration:
        return Configuration(self)

    def __hash__(self) -> int:
        return int(np.bitwise_xor.reduce(self._key_hashes()).astype(np.int32))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Configuration) or self._entries.keys() != other._entries.keys():
            return False
        pairs = ((value, other._entries[key]) for key, value in self._entries.items())
        return all(type(mine) is type(its) and mine == its for mine, its in pairs)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={self._text(key)}" for key in self._in_java_order()) + "}"

    def _text(self, key: str) -> str:
        value = self._entries[key]
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return java_text(value)
        if isinstance(value, bytes):
            return "!!binary |-\n  " + base64.b64encode(value).decode()
        return str(value)

    def _key_hashes(self) -> Hashes:
        return string_hashes(pa.array(list(self._entries), pa.string()))

    def _in_java_order(self) -> list[str]:
        keys = list(self._entries)
        return [keys[at] for at in order_in_table(self._key_hashes(), DEFAULT_TABLE).tolist()]


def parse_integer(text: str) -> int | None:
    """Return an integer in decimal digits of any script, read as by Long.parseLong; None for other text."""
    return int(text) if _INTEGER.fullmatch(text) else None


def parse_float(text: str) -> float:
    """Return a number read as by Java's Double.parseDouble, in decimal. Raises ValueError."""
    text = text.strip()
    if not _DECIMAL.fullmatch(text):
        raise ValueError("is not a number")
    return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)


def java_text(value: float) -> str:
    """Return the text of Java's Double.toString."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(value, "f") if "e" in repr(value) else repr(value)
    digits, _, exponent = format(value, ".17e").partition("e")
    shortest = repr(value)
    sign = "-" if value < 0 else ""
    figures = re.sub(r"e.*|[-.]", "", shortest).lstrip("0").rstrip("0") or digits[:1]
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{int(exponent)}"


# Lists in Flink's options: in YAML, or parts between semicolons


def parse_list(text: str | None) -> list[Any]:
    """Return the elements of a list in YAML ("[a, 'b', 1]", or lines that begin with "- "), or of "a;b"."""
    if not text:
        return []
    try:
        elements = load_yaml(text)
    except ValueError:
        elements = None
    return elements if isinstance(elements, list) else text.split(";")
