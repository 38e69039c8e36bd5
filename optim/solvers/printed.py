"""Numbers read from a solver's log: a printed bound was rounded, so half a digit is taken off."""

from __future__ import annotations


def outward(text: str, sense: str) -> float:
    """Return the weakest bound that prints as `text`.

    Parameters
    ----------
    text
        As printed, with or without exponent.
    sense
        ``"min"``: the bound is a lower one and is lowered; ``"max"``: it is raised.

    Examples
    --------
    >>> round(outward("5.19", "min"), 6)
    5.185
    >>> round(outward("2.712833e+03", "max"), 6)
    2712.8335
    """
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return float(text) - half if sense == "min" else float(text) + half


def outward_trimmed(text: str, sense: str, digits: int) -> float:
    """Return the weakest bound that prints as `text` where trailing zeros are not printed.

    Parameters
    ----------
    text, sense
        As for `outward`.
    digits
        Significant digits the solver prints at most; a shorter number is exact to that digit.

    Examples
    --------
    >>> outward_trimmed("-646.5", "min", 8)
    -646.500005
    """
    value = float(text)
    magnitude = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    half = 0.5 * 10.0 ** (magnitude - digits)
    if 0 < abs(value) < 1:
        leading = f"{abs(value):.1e}".partition("e")[2]
        half = 0.5 * 10.0 ** (int(leading) + 1 - digits)
    return value - half if sense == "min" else value + half
