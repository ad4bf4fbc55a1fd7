"""The update of Gibbs sampling: one row of parameters is drawn from its conditional distribution."""

import numpy as np

from fmcli.models.layout import CUTPOINTS, REAL_TYPE

from fmcli.base.types cimport ColumnView, real
from fmcli.losses.loss cimport Loss
from fmcli.models.parameters cimport MAX_BLOCKS
from fmcli.solvers.coordinate.descent cimport LABEL, SCORES, SHARE
from fmcli.solvers.coordinate.update cimport CoordinateUpdater
from fmcli.solvers.gibbs.priors cimport BlockPrior, Priors
from fmcli.solvers.gibbs.random cimport Stream, stream_of, truncated_normal, uniform
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport uint32_t

cdef extern from "fmcli/solvers/gibbs/conditional.h" nogil:
    void draw_by_precision(double* P, double* t, Py_ssize_t width, Stream* stream, double* step)


cdef enum:
    LATENTS = MAX_BLOCKS  # the purpose of random numbers for samples; random numbers for block b have the purpose b
    WORDS_A_LANE = 8     # counters per lane between the streams of two slices
    PAIR_SWEEPS = 4      # over all pairs of a row on the simplex: cheap compared with the sums over samples


cdef class GibbsUpdater(CoordinateUpdater):
    """One thread's draws of parameters, in place of CoordinateUpdater's minimization.

    Scores are affine in a slice phi, so its conditional distribution is normal. With the precision a of the labels, the
    total weight W, the sums r and G of CoordinateUpdater for the squared loss, and priors N(mu, Lambda^-1):

        P = a W G + Lambda = U^T U
        step = -P^-1 (a W r + Lambda (phi - mu)) + U^-1 z,    z ~ N(0, 1)

    A row on the simplex has a uniform prior. It is drawn in pairs with a constant sum: the first number of a pair is
    then a truncated normal number.

    The random numbers depend only on the seed, the sweep, the block, the row (or its key, see Priors.set_keys) and the
    slice.
    """

    cdef Priors priors
    cdef object numbers
    cdef double* target  # the linear term

    def __init__(self, Priors priors):
        cdef double[::1] numbers
        CoordinateUpdater.__init__(self, priors.descent)
        if not self.descent.bounded or self.descent.curvature != 1:
            raise ValueError("parameters can be drawn only under the squared loss")
        for layout in self.model.layout:
            if layout.trained and layout.affine == "one":
                raise ValueError("scores are not affine in several parameters of a row")
        self.priors = priors
        self.numbers = numbers = np.zeros(max([layout.lanes for layout in self.model.layout]) + 1)
        self.target = &numbers[0]

    cdef void load(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        self.quadratic.begin(v.lanes + v.weight, False, False, 0, 0)
        for f in range(self.quadratic.width):
            self.quadratic.phi[f] = self.number(v, f)[0]

    # The derivatives of the squared loss, without a call for each sample.
    cdef void loss_derivatives(self, const ColumnView* chunk, bint affine) noexcept nogil:
        cdef Py_ssize_t n
        cdef const double* state
        for n in range(chunk.n):
            state = self.descent.sample_state(chunk.sample[n])
            self.slopes[n] = <real>(state[SHARE] * (state[SCORES + chunk.output] - state[LABEL]))
            self.curvatures[n] = <real>state[SHARE]

    cdef void solve(self, const ColumnView* v) noexcept nogil:
        cdef uint32_t first = <uint32_t>(v.at * WORDS_A_LANE)
        cdef uint32_t key = self.priors.key(v.block, v.row)
        cdef Stream stream = stream_of(self.priors.seed, self.priors.sweep, v.block, key, first)
        if self.current.rule.simplex:
            self.draw_pairs(v, &stream)
        else:
            self.draw_normal(v, &stream)

    # The step to a draw from the normal distribution above.
    cdef void draw_normal(self, const ColumnView* v, Stream* stream) noexcept nogil:
        cdef Py_ssize_t f, h, width = self.quadratic.width
        cdef double scale = self.priors.noise * self.priors.weight
        cdef const BlockPrior* block = &self.priors.block[v.block]
        cdef Py_ssize_t first = self.priors.place(v.block, v.row) * block.columns
        cdef double* P = self.quadratic.G
        cdef double* t = self.target
        cdef double* step = self.quadratic.step
        cdef double mean, precision
        for f in range(width):
            mean = block.mean[first + (v.at + f if f < v.lanes else block.columns - 1)]
            precision = block.precision[first + (v.at + f if f < v.lanes else block.columns - 1)]
            if f >= v.lanes and self.current.with_bias:
                mean, precision = 0, self.priors.flat
            for h in range(f, width):
                P[f * width + h] *= scale
            P[f * width + f] += precision
            t[f] = scale * self.quadratic.r[f]
            if self.quadratic.phi[f] != mean:  # not for padding, which is 0 with infinite precision
                t[f] += precision * (self.quadratic.phi[f] - mean)
        draw_by_precision(P, t, width, stream, step)

    # The step to draws of all pairs of a row on the simplex, one after another.
    cdef void draw_pairs(self, const ColumnView* v, Stream* stream) noexcept nogil:
        cdef int _
        cdef Py_ssize_t a, b, h, width = self.quadratic.width
        cdef double scale = self.priors.noise * self.priors.weight, slope, curvature, low, high, spread, move
        cdef const double* G = self.quadratic.G
        cdef const double* phi = self.quadratic.phi
        cdef double* step = self.quadratic.step
        for _ in range(PAIR_SWEEPS):
            for a in range(self.model.block[v.block].columns):
                for b in range(a):
                    slope = self.quadratic.r[a] - self.quadratic.r[b]
                    for h in range(width):
                        slope += (G[a * width + h] - G[b * width + h]) * step[h]
                    curvature = G[a * width + a] - 2 * G[a * width + b] + G[b * width + b]
                    low, high = -(phi[a] + step[a]), phi[b] + step[b]
                    if not low < high:
                        continue
                    if curvature > 0:
                        spread = 1 / sqrt(scale * curvature)
                        move = -slope / curvature
                        move += spread * truncated_normal(stream, (low - move) / spread, (high - move) / spread)
                    else:
                        move = low + (high - low) * uniform(stream)
                    move = min(max(move, low), high)
                    step[a] += move
                    step[b] -= move

    # ---- Latent variables. ----

    def draw_latents(self, Py_ssize_t start, Py_ssize_t stop):
        """Draw the latent variables of samples start:stop, which replace their labels: normal numbers of variance 1
        around the scores, between the label's cutpoints; without cutpoints, on the side of the label's sign."""
        cdef const real[::1] cutpoints = self.cutpoints()
        cdef Py_ssize_t i, level, count = cutpoints.shape[0]
        cdef double* state
        cdef double score, low, high, sign
        cdef Stream stream
        self.check_samples(start, stop)
        with nogil:
            for i in range(start, stop):
                state = self.descent.sample_state(i)
                score = state[SCORES]
                stream = stream_of(self.priors.seed, self.priors.sweep, LATENTS, self.priors.sample_key(i), 0)
                if count:
                    level = <Py_ssize_t>self.descent.data.label_of(i)
                    low = cutpoints[level - 1] - score if level > 0 else -INFINITY
                    high = cutpoints[level] - score if level < count else INFINITY
                    state[LABEL] = score + truncated_normal(&stream, low, high)
                else:
                    sign = 1 if self.descent.data.label_of(i) > 0 else -1
                    state[LABEL] = sign * (sign * score + truncated_normal(&stream, -sign * score, INFINITY))

    def losses(self, Loss loss, Py_ssize_t start, Py_ssize_t stop):
        """Return the share of samples start:stop in the mean loss of their labels."""
        cdef const real[::1] cutpoints = self.cutpoints()
        cdef Py_ssize_t i, j, count = cutpoints.shape[0]
        cdef double total = 0
        cdef double* state
        cdef double* score
        cdef double[::1] margins = np.zeros(count + 1)
        loss.check(self.descent.data.label, self.model.columns)
        self.check_samples(start, stop)
        with nogil:
            for i in range(start, stop):
                state = self.descent.sample_state(i)
                score = state + SCORES
                if count:
                    for j in range(count):
                        margins[j] = score[0] - cutpoints[j]
                    score = &margins[0]
                total += state[SHARE] * loss.value(self.descent.data.label_of(i), score)
        return total

    # The cutpoints of the model; empty if there are none.
    cdef cutpoints(self):
        if not self.model.cutpoints:
            return np.empty(0, REAL_TYPE)
        return self.model.parameters[CUTPOINTS][0]

    cdef check_samples(self, Py_ssize_t start, Py_ssize_t stop):
        self.require()
        if not 0 <= start <= stop <= self.descent.data.rows:
            raise IndexError("no such samples")
