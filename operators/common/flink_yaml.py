"""The YAML of Flink's options, which follows the core schema of YAML 1.2.

Source: org.apache.flink.configuration.YamlParserUtils, ConfigurationUtils (convertToList, convertToString);
snakeyaml-engine's CoreSchema.
"""

import functools
import re
from typing import Any

_LONGEST = 3 << 20  #: maximum of characters that snakeyaml-engine reads
_TAG = "tag:yaml.org,2002:"
_SCHEMA = (
    ("null", r"~|null|Null|NULL| |", "~nN "),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
)


def load_yaml(text: str) -> Any:
    """Return the only document of `text`. Raises ValueError if snakeyaml-engine would not read it."""
    import yaml

    if len(text) > _LONGEST:
        raise ValueError(f"has more than {_LONGEST:,} characters")
    try:
        return yaml.load(text, _loader())
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise ValueError("is not YAML") from error


def as_option_text(value: Any) -> str:
    """Return a value as Flink writes it into an option of strings.

    A string is unchanged, other values are YAML in one line. Raises ValueError for null, which Flink cannot
    write.
    """
    import yaml

    if value is None:
        raise ValueError("is null")
    if isinstance(value, str):
        return value
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")


def core_schema_loader(text: str) -> Any:
    """Return a PyYAML loader for `text`, whose nodes have positions. Raises yaml.YAMLError."""
    return _loader()(text)


@functools.cache
def _loader() -> Any:
    """Return PyYAML's safe loader with the core schema of YAML 1.2; a duplicate key is an error."""
    import yaml

    loader: Any = type(
        "CoreSchemaLoader",
        (yaml.SafeLoader,),
        {"yaml_implicit_resolvers": {}, "construct_mapping": _mapping},
    )
    for name, pattern, first in _SCHEMA:
        starts = [*first, *([""] if name == "null" else [])]
        loader.add_implicit_resolver(_TAG + name, re.compile(f"(?:{pattern})$"), starts)
    loader.add_constructor(_TAG + "int", lambda self, node: _int(self.construct_scalar(node)))
    loader.add_constructor(_TAG + "float", lambda self, node: _float(self.construct_scalar(node)))
    return loader


def _mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in mapping:
            raise ValueError("has a duplicate key")
        mapping[key] = loader.construct_object(value_node, deep=deep)
    return mapping


def _int(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
