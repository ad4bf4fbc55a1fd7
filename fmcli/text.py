"""Numbers as text: one way to write them, wherever people or programs read them."""


def number(value: float) -> str:
    """The fewest digits that read back as the same number: "1234567", "0.1", "1e-05"; -0 is 0."""
    text = repr(float(value) + 0.0)
    return text.removesuffix(".0")
