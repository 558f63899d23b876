"""Text that a terminal would obey, and what it must look like."""

import re

HOSTILE = (
    "a\x00\x07\b\x1b[2J\x1b]0;t\x07\x1b[5;41mb\x7f\x80\x85\x9b31m\x9f\u202a\u202e\u2066\u2069\u200f\u061c"
    "\u2028\u2029\u200b\ufeff\xad\U000e0041\r\n\t\v\f[bold]x[/bold] [/] \\x1b \\ 日本 👩‍👩‍👧 é"
)
SHOWN = (
    r"a\x00\x07\x08\x1b[2J\x1b]0;t\x07\x1b[5;41mb\x7f\x80\x85\x9b31m\x9f\u202a\u202e\u2066\u2069\u200f\u061c"
    r"\u2028\u2029\u200b\ufeff\xad\U000e0041\r\n\t\x0b\x0c[bold]x[/bold] [/] \\x1b \ 日本 👩‍👩‍👧 é"
)
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
#: How HOSTILE would look on a terminal that obeys it.
FOREIGN_STYLE = "\x1b[5;41m"
