"""java.lang.Double.toString."""


def java_double(value: float) -> str:
    """The shortest decimal of a finite number, with an exponent below 0.001 and from ten million on."""
    sign = "-" if repr(value).startswith("-") else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits.strip("0"):
        return f"{sign}0.0"
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 1e-3 <= abs(value) < 1e7:
        padded = "0" * max(0, 1 - point) + digits.ljust(point, "0")
        at = max(point, 1)
        return f"{sign}{padded[:at]}.{padded[at:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
