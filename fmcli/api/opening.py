"""Models of files: of fmcli, and of other programs."""

from __future__ import annotations

import os
from typing import Literal

from fmcli.api.errors import in_python
from fmcli.api.model import Model
from fmcli.api.values import path_of
from fmcli.model_file.container import load

# The programs whose models are read.
Tool = Literal["libfm", "libffm", "xlearn"]


def load_model(path: str | os.PathLike[str]) -> Model:
    """Open a model file, which ``fmcli train`` or `Model.save` has written.

    Parameters
    ----------
    path : str or path
        A local file, or the address of a remote one.

    Returns
    -------
    Model

    Raises
    ------
    BadInputError
        If the file is damaged, or from a newer version; it is a ValueError.
    MissingInputError
        It is a FileNotFoundError.
    """
    with in_python():
        name = path_of("path", path)
        return Model(load(name), name)


def import_model(
    path: str | os.PathLike[str],
    tool: Tool | None = None,
    *,
    loss: Literal["squared", "logistic", "probit"] | None = None,
    labels: tuple[float, float] | None = None,
    clip: tuple[float, float] | None = None,
    norm: bool | None = None,
) -> Model:
    """Open a model of libFM, libffm or xLearn, as ``fmcli import`` does; it predicts the same numbers.

    Parameters
    ----------
    path : str or path
        libFM's text (``-save_model``), libffm's binary file or the text of its versions before 1.20, or xLearn's text
        (``-t``, ``setTXTModel``).
    tool : str, optional
        The program that has written it; by default, as the file shows.
    loss : str, optional
        What scores mean, which files of libFM and xLearn do not say: "squared" for regression, "logistic" for classes,
        "probit" for classes by libFM's als.
    labels : pair of numbers, optional
        The labels of the two classes, the smaller one first; by default, 0 and 1.
    clip : pair of numbers, optional
        The range of predictions, for loss "squared"; libFM clips to the range of its training labels.
    norm : bool, optional
        Whether a model of xLearn scales rows to unit length, as it usually does for field-aware models.

    Returns
    -------
    Model

    Raises
    ------
    UsageError
        For parameters that do not fit the file; it is a ValueError.
    BadInputError
        If the file is not such a model, with its line; it is a ValueError.
    MissingInputError
        It is a FileNotFoundError.
    """
    from fmcli.exchange.importing import Meaning, imported

    with in_python():
        name = path_of("path", path)
        return Model(imported(name, tool, Meaning(loss, labels, clip, norm)), name)
