"""FOBOS: gradient steps on the touched rows, prox steps on all rows."""

import numpy as np

from fmcli.base.state_dict import require_like, whole_number, within
from fmcli.solvers.stochastic.adagrad import AdaGrad
from fmcli.models.layout import allocate
from fmcli.solvers.stochastic.sgd import SGD as Plain

from fmcli.base.types cimport (
    MANY_ENTRIES, Block, RoundGradient, GradientFormula, Sample, Scratch, SparseGradient, ThreadShare, prefetch_line,
    real, sample_of)
from fmcli.models.arguments cimport SampleRun
from fmcli.models.kernels cimport kernels as of_models
from fmcli.penalties.arguments cimport CombinedSteps, PenaltyStrength, rounded
from fmcli.solvers.stochastic.kernels cimport FOBOS_RATES, Adagrad, Fobos as Rule, kernels
from fmcli.models.parameters cimport MAX_BLOCKS, Parameters
from fmcli.penalties.formulas cimport acts, few_steps, with_step
from fmcli.penalties.penalty cimport Penalty
from fmcli.solvers.stochastic.sgd cimport SGD
from fmcli.solvers.stochastic.solver cimport Solver, Steps, step_of, steps_of_both
from libc.stdint cimport int32_t

cdef enum:
    ROWS_AT_ONCE = 32  # rows to catch up before a round, while the next rows are prefetched
    AHEAD = 4  # how many samples of a run ahead the numbers of rows' last steps are prefetched
    # The number of steps in the tables of running sums. After this many steps, all rows catch up.
    LONGEST = 1 << 20

# A product of decays below this value would lose digits, so all rows catch up.
cdef double SMALLEST_DECAY = 1e-200


cdef void before_sample(void* solver, Py_ssize_t i) noexcept nogil:
    (<FOBOS>solver).before(i)


cdef class FOBOS(Solver):
    """phi <- prox(phi - rate g, 1/rate) over all features ([SGL] Algorithms 1 and 2), touched or not.

    The gradient step is SGD's or, with `adaptive`, AdaGrad's. All prox steps are deferred: they are applied when
    the row is next read, and to all rows at the end of an epoch. They have a closed form (deferred.h): a power if they
    have the same h, otherwise, with a schedule, a quotient of running products. With prox="exact", they are instead
    applied step by step, which is slow and tests the closed form. They are also applied step by step if the prox steps
    of the group penalty have no closed form.

    A round of n samples is n steps. Rows that it touches make them at once, with the h of their step.
    """

    cdef Solver inner
    cdef const SampleRun* current  # valid in `steps_of_run`
    cdef SGD plain  # the inner solver if it is SGD, else None
    cdef bint one_by_one, exact  # whether steps are applied one by one: as requested, and as the penalty requires
    cdef bint scheduled  # whether steps have different rates
    cdef Steps rates
    cdef int32_t now
    cdef CombinedSteps* steps  # [step, which]: for the rate and l2 of weights (0) and of factors (1)
    cdef double[::1] shares  # the schedule's factor of the rates, by step; only if `scheduled`
    cdef double rate[2]  # of weights and of factors
    cdef double l2[2]
    cdef Rule body[MAX_BLOCKS]
    cdef Rule weight[MAX_BLOCKS]
    cdef Adagrad round_body[MAX_BLOCKS]  # in rounds
    cdef Adagrad round_weight[MAX_BLOCKS]
    cdef int32_t round_samples  # of the current round
    cdef int32_t* visited[MAX_BLOCKS]
    cdef bint penalized[MAX_BLOCKS]
    cdef real[::1] zeros
    cdef list memory
    cdef object table  # the memory of `steps`

    def __init__(
        self, *, double learning_rate, learning_rate_w=None, learning_rate_v=None, schedule="constant",
        double power=0.5, double t0=1, bint adaptive=False, prox="lazy"
    ):
        cdef double[::1] table
        rates = {
            "learning_rate": learning_rate, "learning_rate_w": learning_rate_w, "learning_rate_v": learning_rate_v}
        if adaptive:
            self.inner, self.plain = AdaGrad(**rates), None
        else:
            self.plain = Plain(**rates, schedule=schedule, power=power, t0=t0)
            self.inner = self.plain
        self.slots, self.averages_weights, self.takes_formulas = self.inner.slots, True, False
        self.one_by_one = prox == "exact"
        self.takes_runs = self.inner.takes_runs and not self.one_by_one
        self.takes_rounds = self.defers_steps = adaptive and not self.one_by_one
        self.scheduled = not adaptive and schedule != "constant"
        if self.scheduled:
            # np.zeros may reuse freed memory, and would then write the whole array.
            table = self.table = allocate(2 * FOBOS_RATES * (LONGEST + 1), np.float64)
            self.steps = <CombinedSteps*>&table[0]
            for which in range(FOBOS_RATES):
                self.steps[which] = CombinedSteps(1, 0)
            self.shares = allocate(LONGEST + 1, np.float64)
        self.rates = steps_of_both(learning_rate, learning_rate_w, learning_rate_v)

    def bytes_needed(self, Parameters model, updates):
        """Return the bytes in use of a schedule's tables, and of the numbers of each row's last step."""
        rows = sum([model.outputs * model.block[b].rows for b in range(model.n_blocks)])
        a_step = FOBOS_RATES * sizeof(CombinedSteps) + sizeof(double)  # with the share of the rates
        return (min(updates, LONGEST) * a_step if self.scheduled else 0) + sizeof(int32_t) * rows

    def bind(self, Parameters model, Penalty penalty):
        cdef int32_t[::1] visited
        self.rate[0], self.rate[1] = self.rates.w, self.rates.v
        self.l2[0], self.l2[1] = penalty.l2_w, penalty.l2_v
        self.exact = self.one_by_one or not penalty.steps_add_up
        # Before a sample of a run, the rows of its features catch up.
        self.takes_runs &= not self.exact and not any([layout.touched == "selected" for layout in model.layout])
        self.takes_rounds &= not self.exact
        self.inner.bind(model, penalty if self.exact else Penalty())
        Solver.bind(self, model, penalty)
        self.memory = []
        for i in range(model.n_blocks):
            visited = allocate(max(model.outputs * model.block[i].rows, 1), np.int32)
            self.memory.append(visited)
            self.visited[i] = &visited[0]
        self.zeros = allocate(max([model.block[i].lanes for i in range(model.n_blocks)]) + 1)

    def load_strengths(self):
        Solver.load_strengths(self)
        self.inner.load_strengths()

    cdef set_rule(self, int block, object layout, bint body):
        cdef bint one_rate = self.rate[0] == self.rate[1] and self.l2[0] == self.l2[1]
        cdef int which = 1 if body or one_rate or layout.penalty == "l2" or layout.penalized_as == "v" else 0
        cdef Rule* rule = &self.body[block] if body else &self.weight[block]
        cdef Adagrad* of_round = &self.round_body[block] if body else &self.round_weight[block]
        rule[0] = self.rule(which, rounded(self.penalty.strength(layout, body)))
        of_round.inverse_rate, of_round.strength = 1 / step_of(self.rates, layout, body), rule.strength
        self.penalized[block] = acts(self.body[block].strength) or acts(self.weight[block].strength)

    def resume(self, updates):
        self.require()
        self.inner.resume(updates)

    @property
    def updates(self):
        return 0 if self.inner is None else self.inner.updates

    def state(self):
        """Return the state, because rows stay behind: the number of steps, and each row's last step. The tables of a
        schedule follow from the number of steps."""
        visited = {f"visited.{b}": np.asarray(array) for b, array in enumerate(self.memory)}
        return {**super().state(), "steps": np.array(self.now), **visited}

    def load_state(self, state):
        cdef int step, missed = whole_number(state, "steps", 0, LONGEST - 1)
        super().load_state(state)
        for b, array in enumerate(self.memory):
            name = f"visited.{b}"
            require_like(name, state[name], np.asarray(array))
            within(name, int(state[name].min()), 0, missed)
            within(name, int(state[name].max()), 0, missed)
            np.asarray(array)[...] = state[name]
        self.now = 0 if self.scheduled else missed
        for step in range(1, missed + 1 if self.scheduled else 0):
            self.now = step
            self.note_step(self.plain.share_of(self.plain.made - missed + step))

    cdef Rule rule(self, int which, PenaltyStrength strength):
        cdef Rule rule
        rule.steps = &self.steps[which] if self.scheduled else NULL
        rule.now = 0
        rule.adaptive = self.plain is None
        rule.inverse_rate = 1 / self.rate[which]
        rule.few = few_steps(self.rate[which], self.l2[which], LONGEST)
        rule.strength = strength
        return rule

    cdef void catch_up(self, Scratch* s) noexcept nogil:
        cdef int i
        cdef const SparseGradient* gradient
        for i in range(s.n_gradients):
            gradient = s.gradients + i
            self.bring_up(gradient.block, gradient.row, gradient.n, gradient.first)

    cdef void prefetch(self, const Sample* x) noexcept nogil:
        cdef int b, c
        cdef Py_ssize_t j
        cdef const int32_t* last
        for b in range(self.model.n_blocks):
            if self.penalized[b] and self.model.by_feature[b]:
                for c in range(self.model.outputs):
                    last = self.visited[b] + c * self.model.block[b].rows
                    for j in range(x.nnz):
                        prefetch_line(last + x.index[j])

    cdef void prefetch_next(self, const Sample* x) noexcept nogil:
        cdef int b, c
        cdef Py_ssize_t j
        cdef const int32_t* last
        if not self.scheduled or self.exact:
            return
        for b in range(self.model.n_blocks):
            if self.penalized[b] and self.model.by_feature[b]:
                for c in range(self.model.outputs):
                    last = self.visited[b] + c * self.model.block[b].rows
                    for j in range(x.nnz):
                        prefetch_line(self.steps + last[x.index[j]] * FOBOS_RATES)

    # Apply the prox steps that the given rows have missed. If `row` is NULL, the rows are the first n of the block.
    cdef void bring_up(self, int b, const int32_t* row, Py_ssize_t n, Py_ssize_t first) noexcept nogil:
        cdef Py_ssize_t i
        if not self.penalized[b] or self.now == 0:
            return
        if not self.exact:
            self.body[b].now = self.weight[b].now = self.now
            kernels.fobos_catch_up(
                &self.model.block[b], row, n, first, self.visited[b], &self.body[b], &self.weight[b])
            return
        for i in range(n):
            self.steps_one_by_one(b, first + row[i] if row != NULL else i)

    # Apply the missed steps of one row, each as a step of the inner solver with a gradient of 0.
    cdef void steps_one_by_one(self, int b, Py_ssize_t row) noexcept nogil:
        cdef int32_t zero = 0
        cdef int32_t step
        cdef double share = self.plain.share if self.scheduled else 1
        cdef SparseGradient one = SparseGradient(
            b, &zero, 1, row, &self.zeros[0], &self.zeros[0], NULL, GradientFormula(NULL, 0, NULL, NULL, NULL, 0))
        for step in range(self.visited[b][row] + 1, self.now + 1):
            if self.scheduled:
                self.plain.set_share(self.shares[step])
            self.inner.apply(&one)
        if self.scheduled:
            self.plain.set_share(share)
        self.visited[b][row] = self.now

    cdef void step(self, Scratch* s) noexcept nogil:
        cdef int i
        cdef Py_ssize_t j
        cdef SparseGradient* gradient
        if not self.exact:
            self.inner.step(s)
            self.count_step()
            return
        for i in range(s.n_gradients):
            s.gradients[i].touched = NULL  # the prox step acts on whole rows, which `catch_up` has brought up to date
        self.inner.step(s)
        for i in range(s.n_gradients):
            gradient = &s.gradients[i]
            for j in range(gradient.n):
                self.visited[gradient.block][gradient.first + gradient.row[j]] = self.now + 1
        self.count_step()

    # Count a gradient step. Its prox step is still missing unless steps are exact.
    cdef void count_step(self) noexcept nogil:
        cdef const CombinedSteps* last
        self.now += 1
        if self.scheduled:
            self.note_step(self.plain.share)
            last = self.steps + self.now * FOBOS_RATES
            if min(last[0].decay, last[1].decay) < SMALLEST_DECAY:
                self.all_up_to_date()
        if self.now == LONGEST:
            self.all_up_to_date()

    # Enter step `now`, with this factor of the rates, in the tables.
    cdef void note_step(self, double share) noexcept nogil:
        cdef int which
        cdef CombinedSteps* last = self.steps + self.now * FOBOS_RATES
        self.shares[self.now] = share
        for which in range(FOBOS_RATES):
            last[which] = with_step(last[which - FOBOS_RATES], share * self.rate[which], self.l2[which])

    # A run of the inner solver. With penalties, a sample's rows catch up before its score is computed.
    cdef double steps_of_run(self, const SampleRun* run, double total) noexcept nogil:
        cdef SampleRun steps = run[0]
        cdef int b
        for b in range(self.model.n_blocks):
            if self.penalized[b]:
                steps.before, steps.solver = before_sample, <void*>self
        self.current = run
        total = self.inner.steps_of_run(&steps, total)
        if steps.before != NULL:
            self.count_step()
        return total

    cdef void before(self, Py_ssize_t i) noexcept nogil:
        cdef int b
        cdef Sample x
        cdef const SampleRun* run = self.current
        if i > run.start:
            self.count_step()
        if i + AHEAD < run.end:
            x = sample_of(run.data, run.order[i + AHEAD])
            self.prefetch(&x)
        if i + 1 < run.end:
            x = sample_of(run.data, run.order[i + 1])
            self.prefetch_next(&x)
        x = sample_of(run.data, run.order[i])
        for b in range(self.model.n_blocks):
            if self.model.by_feature[b]:
                self.bring_up(b, x.index, x.nnz, 0)
            else:
                self.bring_up(b, NULL, self.model.block[b].rows, 0)

    cdef void begin_round(self, Py_ssize_t n) noexcept nogil:
        cdef int b
        if self.now + n > LONGEST:
            self.all_up_to_date()
        self.round_samples = <int32_t>n
        for b in range(self.model.n_blocks):
            self.body[b].now = self.weight[b].now = self.now
            self.round_body[b].penalty_steps = self.round_weight[b].penalty_steps = <real>n

    cdef void end_round(self, Py_ssize_t n) noexcept nogil:
        self.now += <int32_t>n

    cdef void round_catch_up(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        cdef int b = gradient.block
        cdef const int32_t* row = gradient.rows.row
        cdef Py_ssize_t i, some, n = gradient.rows.end[MANY_ENTRIES - 1]
        cdef Py_ssize_t at = n * share.number // share.count, end = n * (share.number + 1) // share.count
        cdef Block block = self.model.block[b]
        if not self.penalized[b]:
            return
        block.room = share.room
        self.prefetch_rows(gradient, at, min(at + ROWS_AT_ONCE, end))
        while at < end:
            some = min(ROWS_AT_ONCE, end - at)
            self.prefetch_rows(gradient, at + some, min(at + some + ROWS_AT_ONCE, end))
            kernels.fobos_catch_up(
                &block, row + at, some, gradient.first, self.visited[b], &self.body[b], &self.weight[b])
            for i in range(at, at + some):  # `round_step` makes this round's steps
                self.visited[b][gradient.first + row[i]] += self.round_samples
            at += some

    cdef void prefetch_rows(self, const RoundGradient* gradient, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        cdef Py_ssize_t i
        cdef const int32_t* last = self.visited[gradient.block] + gradient.first
        of_models.prefetch(&self.model.block[gradient.block], gradient.rows.row + begin, end - begin, gradient.first)
        for i in range(begin, end):
            prefetch_line(last + gradient.rows.row[i])

    cdef void round_step(self, const RoundGradient* gradient, const ThreadShare* share) noexcept nogil:
        cdef int b = gradient.block
        kernels.adagrad_round(
            &self.model.block[b], gradient, &self.round_body[b], &self.round_weight[b], share)

    cdef void all_up_to_date(self) noexcept nogil:
        cdef int b
        cdef Py_ssize_t j, rows
        for b in range(self.model.n_blocks):
            rows = self.model.outputs * self.model.block[b].rows
            self.bring_up(b, NULL, rows, 0)
            for j in range(rows):
                self.visited[b][j] = 0
        self.now = 0

    def end_epoch(self):
        self.require()
        with nogil:
            self.all_up_to_date()
        return Solver.end_epoch(self)

    cdef double rate_share(self) noexcept nogil:
        return self.inner.rate_share()
