"""`penstock generate --list`: what can be drawn."""

from textwrap import wrap

from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say
from penstock.plans.generate.shapes import LEGEND, OTHERS, SHAPES

_WIDTH = 79


def list_what_is_drawn() -> None:
    """Print every shape with a picture, its parameters and a sentence, then what is no shape."""
    say(f"shapes ({LEGEND})")
    for shape in SHAPES:
        say()
        say(Styled(shape.name, "bold"))
        for line in shape.picture.strip("\n").splitlines():
            say(line)
        _say(shape.about)
        _say(f"defaults: operators {shape.default_operators:,}, {shape.defaults}")
        if shape.width:
            _say(f"width: {shape.width}")
    say()
    say("no shapes")
    for other in OTHERS:
        say()
        say(Styled(other.name, "bold"))
        _say(other.about)
        _say(f"takes: {other.parameters}")


def _say(text: str) -> None:
    for line in wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False):
        say(line)
