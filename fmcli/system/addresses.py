"""What the text that names an input says: that it is the address of a remote file, such as s3://bucket/train.libsvm or
https://host/train.libsvm.gz, or a query."""

import re

# The beginning of a Dask cluster's address whose connections are encrypted, with certificates on both sides.
SECURE = "tls://"
# The beginning of the name of an input that is a query, which is the rest. Only the program makes such names.
QUERY = "sql:"
# Not compiled here, because most runs need none of them.
ADDRESS = r"[A-Za-z][\w+.:-]*://"
# What may be secret: a name and a password before the host, and the parameters of a signed address.
LOGIN = r"(\w://)[^\s/@'\"]*@"
PARAMETERS = r"(https?://[^\s?'\"]*)\?[^\s'\"]*?(?=[:;,.)]*(?:[\s'\"]|$))"


def is_remote(path: str) -> bool:
    """Return whether a path is an address. A local file with such a name can be read as ./name."""
    return "://" in path and re.match(ADDRESS, path) is not None


def is_query(path: str) -> bool:
    """Return whether the name of an input is a query."""
    return path.startswith(QUERY)


def file_of(path: str) -> str:
    """Return the name of an input for a path of a user, which is never a query: a query reads any file, and names may
    come from elsewhere."""
    return f"./{path}" if is_query(path) else path


def without_secrets(text: str) -> str:
    """Return a text without passwords and parameters in the addresses that it contains."""
    return re.sub(PARAMETERS, r"\1", re.sub(LOGIN, r"\1", text)) if "://" in text else text


def base_name(path: str) -> str:
    """Return the last part of a path or an address, the latter without parameters."""
    return without_secrets(path).rstrip("/").rpartition("/")[2]
