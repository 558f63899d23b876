"""Parses a string as Flink's Path does: a URI, or an error with Java's message.

Source: org.apache.flink.core.fs.Path; java.net.URI for the errors.
"""

import re
from ipaddress import AddressValueError, IPv6Address

_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]*")
#: Characters that java.net.URI keeps in a path and in an authority; other ASCII characters are escaped.
_IN_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*:@&=+$,;/")
_IN_SCHEME = re.compile(r"[A-Za-z0-9+.-]*")


def uri_error(path: str) -> str | None:
    """Why `path`, which is not empty, is no path in Flink, as URISyntaxException says it; None if it is."""
    scheme, authority, rest = split_path(path)
    if scheme is None:
        return (
            None if authority is None else _authority_error("//" + authority + _escaped(rest), 2, authority)
        )
    uri = f"{scheme}:{'' if authority is None else '//' + authority}{_escaped(rest)}"
    if rest and not rest.startswith("/"):
        return f"Relative path in absolute URI: {uri}"
    if re.search("[?#]", scheme):
        return _character_error(uri)  # a query or a fragment for java.net.URI
    if not scheme:
        return f"Expected scheme name at index 0: {uri}"
    if not re.match("[A-Za-z]", scheme):
        return f"Illegal character in scheme name at index 0: {uri}"
    legal = _IN_SCHEME.match(scheme)
    assert legal is not None
    if legal.end() < len(scheme):
        return f"Illegal character in scheme name at index {legal.end()}: {uri}"
    if not rest and authority is None:
        return f"Expected scheme-specific part at index {len(uri)}: {uri}"
    return None if authority is None else _authority_error(uri, len(scheme) + 3, authority)


def split_path(path: str) -> tuple[str | None, str | None, str]:
    """Scheme, authority and normalised path, as Path's constructor finds them."""
    if re.match("[A-Za-z]:", path):
        path = "/" + path  # a drive of Windows
    scheme = authority = None
    colon, slash = path.find(":"), path.find("/")
    start = 0
    if colon >= 0 and (slash < 0 or colon < slash):
        scheme, start = path[:colon], colon + 1
    if path.startswith("//", start) and len(path) - start > 2:
        end = path.find("/", start + 2)
        end = end if end > 0 else len(path)
        authority, start = path[start + 2 : end], end
    rest = re.sub("/+", "/", path[start:].replace("\\", "/"))
    if rest.endswith("/") and rest != "/" and not re.fullmatch("/[A-Za-z]:/", rest):
        rest = rest[:-1]
    return scheme, authority, rest


def _character_error(uri: str) -> str | None:
    """The first illegal character of a URI that has neither scheme nor authority."""
    path, *_ = re.split("([?#])", uri, maxsplit=1)
    query_end = uri.find("#")
    for place, character in enumerate(uri):
        component = (
            "path" if place < len(path) else "query" if query_end < 0 or place < query_end else "fragment"
        )
        if character == "%":
            if not re.match("%[0-9A-Fa-f]{2}", uri[place:]):
                return f"Malformed escape pair at index {place}: {uri}"
        elif (
            ord(character) < 0x80
            and character not in _IN_PATH
            and (component == "path" or character not in "[]?")
            and place not in (len(path), query_end)
        ):
            return f"Illegal character in {component} at index {place}: {uri}"
    return None


def _escaped(path: str) -> str:
    return "".join(
        character if character in _IN_PATH or ord(character) >= 0x80 else f"%{ord(character):02X}"
        for character in path
    )


def _authority_error(uri: str, start: int, authority: str) -> str | None:
    """Only brackets can be wrong: anything else that is no host counts as a registry-based name."""
    if "[" not in authority and "]" not in authority:
        return None
    user, at, host = authority.rpartition("@")
    bracket = re.search(r"[][]", user)
    if bracket is not None:
        return f"Illegal character in user info at index {start + bracket.start()}: {uri}"
    begin = start + len(user) + len(at)
    if not host.startswith("["):
        legal = _ALPHANUMERIC.match(host)
        assert legal is not None
        return f"Illegal character in hostname at index {begin + legal.end()}: {uri}"
    end = host.find("]")
    if end <= 1:
        place = begin + (1 if end == 1 else len(host))
        return f"Expected closing bracket for IPv6 address at index {place}: {uri}"
    try:
        IPv6Address(host[1:end])
    except AddressValueError:
        return f"Malformed IPv6 address at index {begin + 1}: {uri}"
    return _port_error(uri, begin + end + 1, host[end + 1 :])


def _port_error(uri: str, start: int, port: str) -> str | None:
    if port and not port.startswith(":"):
        return f"Expected port number at index {start}: {uri}"
    digits = re.match("[0-9]*", port[1:])
    assert digits is not None
    if digits.end() < len(port[1:]):
        return f"Illegal character in port number at index {start + 1 + digits.end()}: {uri}"
    if port[1:] and int(port[1:]) >= 1 << 31:
        return f"Malformed port number at index {start + 1}: {uri}"
    return None
