"""Files of rows as text, for the tests of the reader."""


def write(path: str, text: bytes) -> str:
    """Write a file. Returns its path."""
    with open(path, "wb") as file:
        file.write(text)
    return path
