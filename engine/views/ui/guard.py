"""Who may ask: browsers with the token of the link, and pages of this server only."""

import hashlib
import hmac
import secrets
from urllib.parse import parse_qs, urlsplit

_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """The token of one server, which is at `port` of loopback."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = port
        # browsers keep one jar for all ports of a machine
        self.cookie = f"penstock_{port}"

    def is_token(self, token: str) -> bool:
        """Whether this is the token; it takes as long whatever is wrong with it."""
        return _equal(token, self.token)

    def is_host(self, host: str | None) -> bool:
        """Whether a Host header names this server: another name that leads here is somebody's trick."""
        return host in {f"{name}:{self.port}" for name in _NAMES}

    def has_cookie(self, header: str | None) -> bool:
        """Whether a Cookie header holds the token, in a time that grows with its length only."""
        pairs = (pair.strip().partition("=") for pair in (header or "").split(";"))
        return any(self.is_token(value) for name, _, value in pairs if name == self.cookie)

    def knows(self, head: bytes) -> bool:
        """Whether the head of a request has the token, in its cookie or its link."""
        request, *fields = head.decode("latin-1").split("\r\n")
        if self._has_link_token(request):
            return True
        cookies = (field.partition(":")[2] for field in fields if field[:7].lower() == "cookie:")
        return any(map(self.has_cookie, cookies))

    def _has_link_token(self, request: str) -> bool:
        try:
            _, path, _ = request.split(" ")
            tokens = parse_qs(urlsplit(path).query).get("token")
        except ValueError:  # no request, no address
            return False
        return tokens is not None and self.is_token(tokens[0])

    def set_cookie(self) -> str:
        """The header that lets a browser keep the token: no script reads it, no other site sends it."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def form_token(self) -> str:
        """The token of forms on this server's pages, from which the server's own token cannot be told."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()

    def is_own_form(self, origin: str | None, form_token: str) -> bool:
        """Whether a form comes from a page of this server."""
        if origin is not None:
            address = urlsplit(origin)
            if address.scheme != "http" or not self.is_host(address.netloc):
                return False
        return _equal(form_token, self.form_token())


def _equal(text: str, wanted: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), wanted.encode())
