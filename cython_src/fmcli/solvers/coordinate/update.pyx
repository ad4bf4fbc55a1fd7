"""The update of coordinate descent: one row of parameters, by all samples that it enters."""

from fmcli.models.layout import allocate

from fmcli.base.denormals cimport FloatingMode, flush_denormals, return_to_mode
from fmcli.base.types cimport LANES, ColumnView, cache_in, real
from fmcli.losses.arguments cimport ScalarLoss
from fmcli.penalties.arguments cimport PenaltyStrength
from fmcli.solvers.coordinate.kernels cimport kernels
from fmcli.models.related.sums cimport join, part_gradient, update_part
from fmcli.solvers.coordinate.relation_rows cimport RelationRows
from fmcli.solvers.coordinate.columns cimport Columns
from fmcli.solvers.coordinate.descent cimport IN_ONE, LABEL, SCORES, SHARE, BlockRule, Descent
from fmcli.solvers.coordinate.row_slice cimport CHUNK, RowSlice
from libc.math cimport fabs
from libc.stdint cimport int32_t

cdef enum:
    AT_ONCE = 256  # samples whose states stay in the cache until their losses are known
    SUMMED_APART = 1 << 14  # a multiple of the samples in a chunk
    HALVINGS = 30  # of steps, or doublings of the curvature, before a row is left as it is


cdef class CoordinateUpdater(RowSlice):
    """One thread's updates of a Descent. Several may work at once on rows without common samples."""

    def __init__(self, Descent descent):
        cdef real[::1] numbers
        RowSlice.__init__(self, descent)
        self.summed_apart = SUMMED_APART
        self.slope_memory = numbers = allocate(2 * CHUNK)
        self.slopes, self.curvatures = &numbers[0], &numbers[CHUNK]

    def run(
        self, int block, int output, const int32_t[::1] order, Py_ssize_t start, Py_ssize_t stop,
        RelationRows related=None
    ):
        """Update the rows order[start:stop] of a block and class, one after the other: by the samples that they enter,
        or by the rows of a relation, which have been entered."""
        cdef ColumnView v, following
        cdef Py_ssize_t i
        cdef Columns columns
        cdef FloatingMode mode
        cdef bint outside
        self.visit(block, output, related)
        outside = not 0 <= start <= stop <= order.shape[0]
        if not outside:
            for i in range(start, stop):
                outside |= not 0 <= order[i] < self.model.block[block].rows
        if outside:
            raise IndexError("no such rows")
        columns = self.descent.columns[block] if related is None else related.columns
        self.begin_view(block, output, &v)
        following = v
        with nogil:
            mode = flush_denormals()
            for i in range(start, stop):
                if i + 1 < stop and related is None:
                    following.row = order[i + 1]
                    columns.view(following.row, &following)
                    following.n = min(<Py_ssize_t>CHUNK, following.n)
                    if following.sample != NULL and self.by_column is not None:
                        self.by_column.prefetch_states(&following)
                v.row = order[i]
                columns.view(v.row, &v)
                if v.n or self.descent.holds is not None:
                    self.update_row(&v)
            return_to_mode(mode)

    # Begin a pass over rows start:stop of a relation, for a block of parameters and a class.
    cdef begin_rows(
            self, int block, int output, RelationRows related, Py_ssize_t start, Py_ssize_t stop, ColumnView* v):
        self.visit(block, output, None)
        self.require_related(related)
        self.begin_view(block, output, v)
        if not 0 <= start <= stop <= related.table.rows:
            raise IndexError("no such rows")

    def enter(self, int block, int output, RelationRows related, Py_ssize_t start, Py_ssize_t stop):
        """Sum the derivatives of the loss by rows start:stop of a relation over their samples, for updates of
        the relation's features in the rows of a block of parameters and a class."""
        cdef ColumnView v, chunk
        cdef Py_ssize_t i, at
        cdef double* slope
        cdef FloatingMode mode
        self.begin_rows(block, output, related, start, stop, &v)
        with nogil:
            mode = flush_denormals()
            for i in range(start, stop):
                related.enter(i, output)
                slope = related.state(i) + related.width
                related.samples.view(i, &v)
                self.part_view(&v, related.table.lanes)
                at = 0
                while at < v.n:
                    chunk = self.chunk(&v, at)
                    part_gradient(&chunk, related.sums_of(i, output), self.q)
                    self.loss_derivatives(&chunk, True)
                    kernels.gram(
                        self.q, chunk.apart, chunk.n, related.width, self.slopes, self.curvatures, slope,
                        slope + related.width)
                    at += chunk.n
                related.complete(i)
            return_to_mode(mode)

    def leave(self, int block, int output, RelationRows related, Py_ssize_t start, Py_ssize_t stop):
        """Apply the changes of rows start:stop by these updates to the scores and caches of their samples."""
        cdef ColumnView v, chunk
        cdef Py_ssize_t i, n, at
        cdef const real* sums
        cdef FloatingMode mode
        self.begin_rows(block, output, related, start, stop, &v)
        with nogil:
            mode = flush_denormals()
            for i in range(start, stop):
                sums = related.sums_of(i, output)
                related.change(i, output, self.step)
                related.samples.view(i, &v)
                self.part_view(&v, related.table.lanes)
                at = 0
                while at < v.n:
                    chunk = self.chunk(&v, at)
                    part_gradient(&chunk, sums, self.q)
                    kernels.affine_score_changes(
                        self.q, chunk.apart, chunk.n, related.width, self.step, self.change)
                    for n in range(chunk.n):
                        self.descent.sample_state(chunk.sample[n])[SCORES + output] += self.change[n]
                    update_part(&chunk, sums, self.step)
                    at += chunk.n
                related.leave(i, output)
            return_to_mode(mode)

    # All factors and the weight of a row of a relation, as a feature of its samples.
    cdef void part_view(self, ColumnView* v, Py_ssize_t lanes) noexcept nogil:
        v.row = v.at = 0
        v.lanes, v.weight, v.apart = lanes, 1, lanes + LANES

    # Check that rows of a block and class can be visited, by the samples or by the rows of a relation.
    cdef visit(self, int block, int output, RelationRows related):
        self.require()
        if not (0 <= block < self.model.n_blocks and 0 <= output < self.model.outputs):
            raise IndexError("no such rows")
        if related is not None:
            self.require_related(related)
        self.related = related

    # ValueError unless the relation is one of the descent.
    cdef require_related(self, RelationRows related):
        if not any([related is known for known in self.descent.related]):
            raise ValueError("the descent does not have such a relation")

    # Set the fields that the views of all rows of a block and class share.
    cdef void begin_view(self, int block, int output, ColumnView* v) noexcept nogil:
        v.block, v.output = block, output
        if self.related is not None:
            v.sample_states, v.sample_state_size, v.cache = self.related.states, self.related.state_size, 0
            return
        v.sample_states, v.sample_state_size = self.descent.states.at, self.descent.states.size
        v.cache = self.descent.states.cache + output * self.descent.states.reals * sizeof(real)

    def measure(self, Py_ssize_t start, Py_ssize_t stop):
        """Scores and caches of samples start:stop from the parameters; returns their share of the mean loss."""
        cdef Py_ssize_t i, end
        cdef double total = 0
        cdef double* state
        self.require()
        if not 0 <= start <= stop <= self.descent.data.rows:
            raise IndexError("no such samples")
        with nogil:
            while start < stop:
                end = min(start + AT_ONCE, stop)
                if self.by_column is None:
                    self.fill_scores(start, end)
                else:
                    self.by_column.fill_states(
                        self.descent.data, start, end, &self.workspace.scratch, &self.descent.states)
                for i in range(start, end):
                    self.join_relations(i)
                    state = self.descent.sample_state(i)
                    total += state[SHARE] * self.descent.loss.value(state[LABEL], state + SCORES)
                start = end
        return total

    def add_derivatives(
        self, int block, int output, const int32_t[::1] order, double[:, ::1] curvatures, double[:, ::1] slopes=None
    ):
        """Add the second derivatives of the mean loss in each parameter of these rows of a block and class, and the
        first ones unless `slopes` is None.

        Row i of the arrays belongs to row order[i] and has its body, with padding, and then its weight, if it has one.
        A single row of curvatures without slopes gets the sum over all rows. Scores and caches must be measured, and
        there must be no group penalty.
        """
        cdef ColumnView v
        cdef Py_ssize_t i, f, at, place, width
        cdef Columns columns
        cdef bint weighted, summed = slopes is None and curvatures.shape[0] == 1
        self.visit(block, output, None)
        columns = self.descent.columns[block]
        weighted = self.model.block[block].weight != NULL
        width = self.model.block[block].lanes + weighted
        if not (summed or curvatures.shape[0] == order.shape[0]) or curvatures.shape[1] != width or not (
                slopes is None or slopes.shape[0] == order.shape[0] and slopes.shape[1] == width):
            raise ValueError("the derivatives do not have the shape of the rows")
        self.begin_view(block, output, &v)
        for i in range(order.shape[0]):
            if not 0 <= order[i] < self.model.block[block].rows:
                raise IndexError("no such row")
            place = 0 if summed else i
            v.row = order[i]
            columns.view(v.row, &v)
            self.select_row(&v)
            while v.n and self.next_slice(&v):
                self.load(&v)
                self.bound_loss(&v, 0, v.n)
                for f in range(min(self.quadratic.width, v.lanes + weighted)):
                    at = v.at + f if f < v.lanes else width - 1
                    curvatures[place, at] += self.quadratic.G[f * self.quadratic.width + f]
                    if slopes is not None:
                        slopes[place, at] += self.quadratic.r[f]

    # ValueError unless there is something to update.
    cdef require(self):
        if self.descent is None:
            raise ValueError("there is nothing to update")
        self.descent.require()

    # Add the contributions of the rows of relations to the scores and caches of a sample.
    cdef void join_relations(self, Py_ssize_t i) noexcept nogil:
        cdef int c
        cdef size_t table
        for table in range(self.descent.tables.size()):
            for c in range(self.model.outputs):
                self.descent.sample_state(i)[SCORES + c] += join(
                    &self.descent.tables[table], i, c, cache_in(&self.descent.states, i, c))

    # ---- The algorithm. ----

    # One row, slice by slice.
    cdef void update_row(self, ColumnView* v) noexcept nogil:
        self.select_row(v)
        while self.next_slice(v):
            self.update_slice(v)

    # Minimize the objective over the parameters phi of a slice. The row enters the samples i, with shares s_i of all
    # weight, labels y_i and scores f_i; q_i is the derivative of f_i by phi.
    #
    #     r <- sum_i s_i l'(y_i, f_i) q_i                     the slopes of the mean loss
    #     G <- sum_i s_i max l''(y_i, .) q_i q_i^T            and a bound on its curvatures, or l''(y_i, f_i) for max
    #     step <- argmin <r, step> + step^T G step / 2 + penalty(phi + step)
    #     f_i <- f_i + what the step changes; phi <- phi + step
    #
    # If the loss has a largest curvature and scores are affine in phi, this is a bound, and the objective cannot rise.
    # Otherwise the step is shortened until it does not.
    cdef void update_slice(self, const ColumnView* v) noexcept nogil:
        cdef int tries
        cdef double before = 0
        cdef bint bounded = self.descent.bounded and self.affine()
        self.load(v)
        self.bound_loss(v, 0, v.n)
        self.quadratic.complete()
        self.add_holds(v)
        if not bounded:
            before = self.objective(v, False)
        self.solve(v)
        for tries in range(HALVINGS + 1):
            if tries:
                self.quadratic.shorten()
            if not self.round_step(v):
                return
            if bounded or self.objective(v, True) <= before:
                self.apply_step(v, 0, v.n)
                self.take_step(v)
                return

    # ---- Its steps. ----

    # The slice's parameters where they stand, and the strengths of their penalties.
    cdef void load(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef const PenaltyStrength* strength
        cdef bint follows = v.weight and self.current.with_bias
        self.quadratic.begin(
            v.lanes + v.weight, follows, self.current.rule.together, self.current.rule.group,
            self.current.rule.group_penalty)
        for f in range(self.quadratic.width):
            strength = &self.current.rule.body if f < v.lanes else &self.current.rule.weight
            self.quadratic.strength[f].l1, self.quadratic.strength[f].l2 = strength.l1, strength.l2
            self.quadratic.phi[f] = self.number(v, f)[0]
        if self.descent.nuclear > 0:
            self.load_nuclear_norm(v)

    # Add the derivatives of the slice's quadratic prior.
    cdef void add_holds(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef double strength, most = 0
        cdef double* r = self.quadratic.r
        cdef double* G = self.quadratic.G
        if self.descent.holds is None:
            return
        for f in range(self.quadratic.width):
            strength = self.hold(v, f)
            r[f] += strength * self.quadratic.phi[f] - self.pull(v, f)
            most = max(most, strength)
            if not self.quadratic.together:
                G[f * self.quadratic.width + f] += strength
        self.quadratic.curvature += most

    # sum_s |beta_s| |p_s|^2 as a function of beta is an l1 penalty; as one of a feature's factors, an l2 penalty.
    cdef void load_nuclear_norm(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef int beta = self.descent.beta
        cdef const real* weights = self.model.block[beta].body + v.output * self.model.block[beta].body_stride
        for f in range(v.lanes):
            if v.block == beta:
                if v.at + f < self.descent.norms.shape[1]:
                    self.quadratic.strength[f].l1 = self.descent.nuclear * self.descent.norms[v.output, v.at + f]
            else:
                self.quadratic.strength[f].l2 = 2 * self.descent.nuclear * fabs(weights[v.at + f])

    # The step, from r and G.
    cdef void solve(self, const ColumnView* v) noexcept nogil:
        self.quadratic.minimize()

    # r and G of the view's samples begin .. end - 1, chunk by chunk.
    cdef void bound_loss(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t at = begin
        cdef ColumnView chunk
        if self.related is not None:
            self.bound_related(v, begin, end)
            return
        while at < end:
            chunk = self.chunk(v, at)
            self.derivatives(&chunk)
            self.loss_derivatives(&chunk, self.affine())
            self.add_to_bound(&chunk)
            at += chunk.n

    # r and G of the rows of a relation.
    cdef void bound_related(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef ColumnView chunk = some_of(v, begin, end)
        cdef const real* row = self.current.body
        if self.quadratic.together:
            self.quadratic.curvature += kernels.relation_row_squares(&chunk, row, self.related.width, self.quadratic.r)
        else:
            kernels.relation_row_bound(&chunk, row, self.related.width, self.quadratic.r, self.quadratic.G)

    # s_i l'(y_i, f_i), and s_i times l'': at most, if steps need no check, because it is bounded and scores are affine;
    # else, as it is.
    cdef void loss_derivatives(self, const ColumnView* chunk, bint affine) noexcept nogil:
        cdef Py_ssize_t n
        cdef double curvature = self.descent.curvature
        cdef double* sample_state
        cdef double* slope = self.workspace.scratch.slope
        cdef double[2] of_one
        cdef ScalarLoss scalar = self.descent.loss.of_one_score()
        cdef bint single = self.model.outputs == 1
        cdef bint bounded = self.descent.bounded and affine
        for n in range(chunk.n):
            sample_state = self.descent.sample_state(chunk.sample[n])
            if single:  # without the value of the loss, if that needs a logarithm
                scalar.slope(scalar.self, sample_state[LABEL], sample_state + SCORES, of_one)
                self.slopes[n] = <real>(sample_state[SHARE] * of_one[0])
            else:
                self.descent.loss.slope(sample_state[LABEL], sample_state + SCORES, slope)
                self.slopes[n] = <real>(sample_state[SHARE] * slope[chunk.output])
            if not bounded:
                curvature = self.descent.loss.curvature(sample_state[LABEL], sample_state + SCORES)
            self.curvatures[n] = <real>(sample_state[SHARE] * curvature)

    # A chunk's share of r and G; of parameters that move together, one number bounds all curvatures. Where scores bend
    # in single parameters, their second derivatives count, too.
    cdef void add_to_bound(self, const ColumnView* chunk) noexcept nogil:
        cdef Py_ssize_t width = self.quadratic.width
        if self.quadratic.together:
            self.quadratic.curvature += kernels.squares(
                self.q, chunk.apart, chunk.n, width, self.slopes, self.curvatures, self.quadratic.r)
            return
        kernels.gram(
            self.q, chunk.apart, chunk.n, width, self.slopes, self.curvatures, self.quadratic.r, self.quadratic.G)
        if self.current.rule.affine != IN_ONE or self.by_column is None:
            return
        if self.by_column.score_curvature(chunk, self.second):
            kernels.squares(
                self.second, chunk.apart, chunk.n, width, self.slopes, self.curvatures, self.quadratic.extra_curvature)

    # The step as the parameters, rounded, will take it; whether there is one.
    cdef bint round_step(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef bint moves = False
        cdef double* step = self.quadratic.step
        cdef double* phi = self.quadratic.phi
        if self.current.rule.simplex:
            self.put(v, True)
            self.model.constrain()
            for f in range(self.quadratic.width):
                step[f] = self.number(v, f)[0] - phi[f]
            self.put(v, False)
        for f in range(self.quadratic.width):
            step[f] = <real>(phi[f] + step[f]) - phi[f]
            self.step[f] = <real>step[f]
            moves |= step[f] != 0
        return moves

    # The parameters take the step, which is recorded if steps are watched.
    cdef void take_step(self, const ColumnView* v) noexcept nogil:
        cdef Py_ssize_t f
        cdef BlockRule* rule = self.current.rule
        self.put(v, True)
        if rule.moved == NULL:
            return
        for f in range(self.quadratic.width):
            rule.moved[v.row] = max(rule.moved[v.row], fabs(self.quadratic.step[f]))
            rule.size[v.row] = max(rule.size[v.row], fabs(self.quadratic.phi[f] + self.quadratic.step[f]))

    # What depends on the slice, now or after the step: the loss of the row's samples, and the penalty.
    cdef double objective(self, const ColumnView* v, bint stepped) noexcept nogil:
        cdef Py_ssize_t n, at = 0
        cdef ColumnView chunk
        cdef double total = 0, kept
        cdef double* sample_state
        if self.descent.holds is not None:
            for n in range(self.quadratic.width):
                kept = self.quadratic.phi[n] + stepped * self.quadratic.step[n]
                total += (self.hold(v, n) / 2 * kept - self.pull(v, n)) * kept
        while at < v.n:
            chunk = self.chunk(v, at)
            if stepped:
                self.score_changes(v, &chunk)
            for n in range(chunk.n):
                sample_state = self.descent.sample_state(chunk.sample[n])
                kept = sample_state[SCORES + v.output]
                if stepped:
                    sample_state[SCORES + v.output] += self.change[n]
                total += sample_state[SHARE] * self.descent.loss.value(sample_state[LABEL], sample_state + SCORES)
                sample_state[SCORES + v.output] = kept
            at += chunk.n
        return total + self.quadratic.penalty()

    # The scores and caches of the view's samples begin .. end - 1 take the step.
    cdef void apply_step(self, const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t n, at = begin
        cdef ColumnView chunk
        if self.related is not None:
            chunk = some_of(v, begin, end)
            kernels.relation_row_step(&chunk, self.current.body, self.related.width, self.step)
            return
        while at < end:
            chunk = self.chunk(v, at)
            self.score_changes(v, &chunk)
            for n in range(chunk.n):
                self.descent.sample_state(chunk.sample[n])[SCORES + v.output] += self.change[n]
            if self.by_column is not None:
                self.by_column.update_cache(&chunk, self.step)
            at += chunk.n


# Samples begin .. end - 1 of a view.
cdef inline ColumnView some_of(const ColumnView* v, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef ColumnView chunk = v[0]
    chunk.sample, chunk.value, chunk.n = v.sample + begin, v.value + begin, end - begin
    return chunk
