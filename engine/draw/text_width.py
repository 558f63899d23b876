"""How wide text is drawn, and names cut to fit: without a font, as wide as in DejaVu Sans."""

from unicodedata import combining, east_asian_width

_NARROW = frozenset("iljtfrI.,:;|!'`()[]{}/\\-\" ")
_WIDE = frozenset("mwMW@%<>=+~^#&…")


def text_width(text: str, pixels: float) -> float:
    """About how wide a line is, in pixels, at that size of the font."""
    return sum(map(_share, text)) * pixels


def cut(text: str, width: float, pixels: float) -> str:
    """The text, or its beginning with an ellipsis where it is wider than `width` pixels."""
    room, kept = width, 0
    for place, character in enumerate(text):
        room -= _share(character) * pixels
        if room >= pixels:
            kept = place + 1
        elif room < 0:
            return text[:kept].rstrip() + "…"
    return text


def _share(character: str) -> float:
    """Of the size of the font."""
    if character in _NARROW:
        return 0.4
    if character in _WIDE or east_asian_width(character) in "WF":
        return 1.02
    if combining(character):
        return 0.0
    return 0.72 if character.isupper() else 0.64
