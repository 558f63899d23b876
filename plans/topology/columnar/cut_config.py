"""The configuration of a topology line apart from the rest."""

from json import JSONDecoder

_KEY = b'"config"'
_SPACES = b" \t\r"
_LONGEST = 2**16
_AS_IT_IS = "surrogateescape"
_DECODER = JSONDecoder()


def cut_config(line: bytes) -> tuple[bytes, bytes]:
    """The line with an empty configuration, and the text of the one it had, `{}` if none.

    Where this is not plain the line stays as it is. What is cut out is an object, but may be wrong inside.
    Only a key can stand before a colon: if the rest turns out to be right, it was the configuration.
    """
    if _KEY not in line:
        return line, b"{}"
    before, _, after = line.partition(_KEY)
    behind = after.lstrip(_SPACES)
    text = behind[1:].lstrip(_SPACES)
    if behind[:1] != b":" or text[:1] != b"{" or _KEY in after:
        return line, b"{}"
    characters = text[:_LONGEST].decode(errors=_AS_IT_IS)
    try:
        _, end = _DECODER.raw_decode(characters)
    except (ValueError, RecursionError):
        return line, b"{}"
    config = characters[:end].encode(errors=_AS_IT_IS)
    return before + _KEY + b":{}" + text[len(config) :], config
