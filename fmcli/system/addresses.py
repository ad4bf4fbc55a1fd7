"""Tell what the name of an input is: the address of a remote file, such as s3://bucket/train.libsvm or
https://host/train.libsvm.gz, a query, or a local file."""

import re

# The beginning of the address of a Dask cluster with encrypted connections and certificates on both sides.
SECURE = "tls://"
# The beginning of the name of a query as an input; the query follows. Only the program makes such names.
QUERY = "sql:"
# Patterns as text, not compiled, because most runs need none of them.
ADDRESS = r"[A-Za-z][\w+.:-]*://"
# Possible secrets: a name and a password before the host, and the parameters of a signed address.
LOGIN = r"(\w://)[^\s/@'\"]*@"
PARAMETERS = r"(https?://[^\s?'\"]*)\?[^\s'\"]*?(?=[:;,.)]*(?:[\s'\"]|$))"


def is_remote(path: str) -> bool:
    """Return whether a path is an address. A local file with such a name can be given as ./name."""
    return "://" in path and re.match(ADDRESS, path) is not None


def is_query(path: str) -> bool:
    """Return whether an input is a query, by its name."""
    return path.startswith(QUERY)


def file_of(path: str) -> str:
    """Return the name of an input for a user's path, which is never a query: a query can read any file, and names may
    come from others."""
    return f"./{path}" if is_query(path) else path


def without_secrets(text: str) -> str:
    """Return a text without the passwords and parameters of the addresses in it."""
    return re.sub(PARAMETERS, r"\1", re.sub(LOGIN, r"\1", text)) if "://" in text else text


def base_name(path: str) -> str:
    """Return the last part of a path or of an address without its parameters."""
    return without_secrets(path).rstrip("/").rpartition("/")[2]
