"""The configuration of a topology line apart from the rest."""

from json import JSONDecoder

_KEY = b'"config"'
_SPACES = b" \t\r"
_DECODER = JSONDecoder()


def cut_config(line: bytes) -> tuple[bytes, bytes]:
    """The line with an empty configuration, and the text of the one it had, `{}` if none.

    Where this is not plain the line stays as it is. What is cut out is an object, but may be wrong inside.
    Nothing but a key can precede a colon: if the rest turns out to be right, it was the configuration.
    """
    if _KEY not in line:
        return line, b"{}"
    before, _, after = line.partition(_KEY)
    colon, text = after.lstrip(_SPACES)[:1], after.lstrip(_SPACES)[1:].lstrip(_SPACES)
    if colon != b":" or text[:1] != b"{" or _KEY in after:
        return line, b"{}"
    try:
        characters = text.decode()
        _, end = _DECODER.raw_decode(characters)
    except (ValueError, RecursionError):
        return line, b"{}"
    return before + _KEY + b":{}" + characters[end:].encode(), characters[:end].encode()
