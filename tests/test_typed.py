"""The interface for Python as a type checker sees it: right programs of users have no errors, and wrong ones do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fmcli

MYPY = (sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent")
RIGHT = '''
"""Trains models from Python."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import fmcli
from fmcli.errors import FmcliError
from fmcli.sklearn import FMClassifier, FMFeatures, FMRanker, FMRegressor

X = np.eye(4, dtype=np.float32)
y = np.array([0.0, 1.0, 0.0, 1.0])


def stop_after(epoch: fmcli.Epoch) -> bool:
    return epoch.number > 2 and epoch.valid.get("auc", 0.0) > 0.5


data: fmcli.Data = fmcli.Data(X, y, weight=[1, 1, 2, 2])
rows: fmcli.Data = fmcli.read("train.libsvm")
model: fmcli.Model = fmcli.train(
    (X, y), valid=(X, y), model="fm", rank=4, learning_rate=0.1, linear=False, epochs=3, callbacks=[stop_after]
)
raw: NDArray[np.float64] = model.predict(X, "raw")
predictions, spread = model.predict([{"user": "u1", "film": 3.0}], std=True)
scores: dict[str, float] = model.evaluate(data, ["auc"])
factors: NDArray[np.float64] = model.factors(X)
weights: NDArray[np.float32] = model.parameters["w"]
last: float = model.history[-1]["loss"]
assert_type(model.predict(X), NDArray[Any])
assert_type(model.predict(X, std=True), tuple[NDArray[Any], ...])
model.save("m.fm")
model.export("m.libfm", to="libfm")
theirs: fmcli.Model = fmcli.import_model("m.libfm", "libfm", loss="logistic", labels=(0, 1))
kind: str = fmcli.load("m.fm").kind
try:
    fmcli.train("missing.libsvm", threads=2)
except (FmcliError, FileNotFoundError) as error:
    print(error)

classifier: FMClassifier = FMClassifier(model="ffm", rank=4, random_state=0).fit(X, y, fields=[0, 0, 1, 1])
labels: NDArray[np.float64] = classifier.predict(X)
chances: NDArray[np.float64] = classifier.predict_proba(X)
assert_type(classifier.predict(X), NDArray[Any])
assert_type(classifier.predict_proba(X), NDArray[np.float64])
assert_type(classifier.partial_fit(X, y), FMClassifier)
accuracy: float = classifier.score(X, y)
regressor: FMRegressor = FMRegressor(solver="mcmc", n_jobs=2).fit(X, y, sample_weight=[1, 1, 2, 2])
assert_type(regressor.predict(X), NDArray[np.float64])
assert_type(regressor.predict(X, return_std=True), tuple[NDArray[np.float64], NDArray[np.float64]])
ranker: FMRanker = FMRanker().fit(X, y, qid=[0, 0, 1, 1])
embedded: NDArray[np.float64] = FMFeatures(rank=2).fit_transform(X, y)
'''
WRONG = """
import fmcli
from fmcli.sklearn import FMClassifier

model = fmcli.train("train.libsvm", rnk=4)  # error
model = fmcli.train("train.libsvm", rank="4")  # error
model.predict("test.libsvm", "probs")  # error
model.export("m.libfm", to="xlearn")  # error
model.kind = "ffm"  # error
fmcli.import_model("m.libfm", loss="hinge")  # error
fmcli.trian("train.libsvm")  # error
FMClassifier(rank="4")  # error
"""


def test_programs_of_users_are_checked(tmp_path, cache):
    """In strict mode; errors in the package itself are found by scripts/check."""
    folder = Path(fmcli.__file__).parent.parent  # of a checkout; an installed package is found
    variables = {} if folder.name == "site-packages" else {"MYPYPATH": str(folder)}
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [*MYPY, "--cache-dir", cache.mkdir("mypy"), "right.py", "wrong.py"],
        env={**os.environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)
    expected = [str(number) for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# error")]
    assert found == [("wrong.py", number) for number in expected], done.stdout + done.stderr
