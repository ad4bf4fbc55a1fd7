"""The recommender: users, items and their observed pairs, with the calls of other recommenders."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import block_diag, coo_array, csr_array, eye_array, hstack
from sklearn.utils.validation import check_array, check_is_fitted

from fmcli.api.data import Data, of_matrix
from fmcli.api.errors import in_python, refuse
from fmcli.api.parameters import PARAMETERS
from fmcli.api.rows import is_files
from fmcli.inspect.similar import RowFactors
from fmcli.names import no_such
from fmcli.registry.modes import MODES
from fmcli.scoring.recommend.known import known_rows
from fmcli.sklearn.base import Estimator, with_signature

# The choices that observed pairs exclude.
EXCLUDED = next(mode.refuses for mode in MODES if mode.name == "implicit")
# The fields of the features of users and of items in a matrix of pairs.
FIELD = {"user": 0, "item": 1}
Found = tuple[NDArray[Any], NDArray[np.float64]]


@with_signature
class FMRecommender(Estimator):
    """A factorization machine that learns which items users want from observed pairs, such as plays or purchases.

    It is trained as by ``fmcli.train(.., implicit=True)``: every pair of a user and an item counts.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    users_, items_ : ndarray
        Their ids: numbers of rows and columns of a matrix, or texts of the cells of a frame.
    model_ : fmcli.Model
    history_ : list of dict
    """

    _without = tuple(name for name in PARAMETERS if name in EXCLUDED)

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        user: Any = (),
        item: Any = (),
        count: str | None = None,
        decay: str | None = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Train the model.

        Parameters
        ----------
        X : sparse matrix, frame, or files
            Shape (users, items): an entry is the count of an observed pair, at least 1. Or a table of pairs.
        y : None
            Ignored.
        user, item : str or sequence of str
            Columns of a table: the id and other features of users, and of items.
        count : str, optional
            The column of counts of a table; by default, each row counts once.
        decay : str, optional
            Of a table: "time:COLUMN:HALF-LIFE", as in `fmcli.train`.
        user_features, item_features : sparse matrix or array, optional
            Of a matrix of pairs: shape (users, features) and (items, features), beside a feature of each user and item.
            They score users and items without pairs.

        Returns
        -------
        self
        """
        changed = {"implicit": True, **self._resumed()}
        self._rows_of: dict[str, csr_array] = {}
        is_table = is_files(X) or self._is_frame(X)
        has_features = user_features is not None or item_features is not None
        names_columns = bool(user or item or count or decay)
        with in_python():
            refuse(is_table and has_features, "user and item name a table's features")
            refuse(not is_table and names_columns, "user, item, count and decay name columns, but X is a matrix")
        if is_table:
            changed |= {"user": user, "item": item, "count": count, "decay": decay}
        else:
            X = self._pairs(coo_array(check_array(X, accept_sparse="coo")), user_features, item_features)
            changed |= {side: str(field) for side, field in FIELD.items()}
        self.model_ = self._trained(X, None, changed)
        self.users_, self.items_ = (self._ids(side) for side in FIELD)
        return self

    def recommend(
        self, users: ArrayLike | None = None, n: int = 10, *, items: ArrayLike | None = None, filter_seen: bool = True
    ) -> Found:
        """Return the items with the largest scores for each user.

        Parameters
        ----------
        users, items : array-like, optional
            Ids of some users, and of the items to choose from; by default, all.
        n : int
            The number of items for each user.
        filter_seen : bool
            Whether to leave out the items of the user's observed pairs.

        Returns
        -------
        (ndarray, ndarray of float)
            Both of shape (users, n): ids, the best first, and scores. If fewer are left, the rest is -1, or None if ids
            are texts, and nan.
        """
        check_is_fitted(self)
        contexts, chosen = self._places("user", users), self._places("item", items)
        seen = None if filter_seen else csr_array((len(contexts), len(chosen)))
        given, over = self._data_of("user", contexts), self._data_of("item", chosen)
        place, scores = self.model_.recommend(given, over, n, seen=seen)
        return np.append(self.items_[chosen], [None if self.items_.dtype == object else -1])[place], scores

    def similar_items(self, item: Any, n: int = 10) -> Found:
        """Return the items whose factors have nearly the direction of an item's.

        Parameters
        ----------
        item : the id of an item
        n : int

        Returns
        -------
        (ndarray, ndarray of float)
            Their ids, and cosines in decreasing order.
        """
        return self._similar("item", item, n)

    def similar_users(self, user: Any, n: int = 10) -> Found:
        """Return the users whose factors have nearly the direction of a user's.

        Parameters
        ----------
        user, n
            As in `similar_items`.

        Returns
        -------
        (ndarray, ndarray of float)
            As of `similar_items`.
        """
        return self._similar("user", user, n)

    def _pairs(self, X: coo_array, user_features: Any, item_features: Any) -> Data:
        """Return the pairs of a matrix, and keep the rows of all users and items. Raises ValueError."""
        X.eliminate_zeros()
        sides = []
        for name, count, features in zip(FIELD, X.shape, (user_features, item_features), strict=True):
            sides.append(eye_array(count, dtype=np.float32))
            if features is not None:
                features = check_array(features, accept_sparse="csr", dtype=np.float32)
                if features.shape[0] != count:
                    raise ValueError(f"{name}_features has {features.shape[0]:,} rows, but X has {count:,} {name}s")
                sides[-1] = hstack([sides[-1], features])
        every, users = block_diag(sides, format="csr"), X.shape[0]
        self._rows_of = {"user": every[:users], "item": every[users:]}
        fields = np.repeat(list(FIELD.values()), [side.shape[1] for side in sides])
        return of_matrix(every[X.row] + every[users + X.col], X.data, fields=fields)

    def _ids(self, side: str) -> NDArray[Any]:
        """Return the ids of all users, or of all items."""
        if self._rows_of:
            return np.arange(self._rows_of[side].shape[0])
        return np.array(getattr(self.model_, f"{side}s"), dtype=object)

    def _places(self, side: str, ids: ArrayLike | None) -> NDArray[np.int32]:
        """Return the rows of users or items; None: all. Raises UsageError as a ValueError for an unknown id."""
        known = getattr(self, f"{side}s_")
        if ids is None:
            return np.arange(len(known), dtype=np.int32)
        place = {str(one): at for at, one in enumerate(known.tolist())}
        with in_python():
            for one in (given := list(map(str, np.atleast_1d(np.asarray(ids, dtype=object)).tolist()))):
                refuse(one not in place, no_such(side, one, place))
        return np.array([place[one] for one in given], dtype=np.int32)

    def _data_of(self, side: str, places: NDArray[np.int32]) -> Data:
        """Return rows of users or items."""
        if self._rows_of:
            return of_matrix(self._rows_of[side][places])
        scorer = self.model_._scorer
        data = known_rows(scorer, f"{side}s").data.take(places)
        return Data._of(data.changed(numbering=scorer.transform.numbering), (), "")

    def _similar(self, side: str, one: Any, n: int) -> Found:
        """Return the ids of the users or items with the factors most similar to the factors of one, and the cosines."""
        check_is_fitted(self)
        own = self._places(side, [one])
        others = np.setdiff1d(self._places(side, None), own).astype(np.int32)
        with in_python():
            factors = RowFactors(self.model_._scorer)
            mine, theirs = (self.model_._in_columns(self._data_of(side, rows), None) for rows in (own, others))
            cosine = factors.cosines(mine, theirs)
        best = np.argsort(-cosine, kind="stable")[:n]
        return getattr(self, f"{side}s_")[others[best]], cosine[best]
