// What lifted.py runs: the lifted kernels beside their definition as one would first write it, factor by factor in doubles.
// Arguments: the instruction set, non-zeros a row, and the number of runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels.h"

namespace {

enum { ROWS = 200, FEATURES = 5000 };

struct Problem {
    int order;
    ptrdiff_t rank, nnz;
    std::vector<real> u;          // (FEATURES, order, rank), as a model has it
    std::vector<double> doubles;  // the same
    std::vector<int32_t> index;   // (ROWS, nnz)
    std::vector<float> value;
};

Problem random_problem(int order, ptrdiff_t rank, ptrdiff_t nnz) {
    std::mt19937 engine(1);
    std::normal_distribution<double> normal;
    Problem p{order, rank, nnz, {}, {}, {}, {}};
    for (ptrdiff_t i = 0; i < FEATURES * order * rank; ++i) p.u.push_back((real)(0.3 * normal(engine)));
    p.doubles.assign(p.u.begin(), p.u.end());
    for (ptrdiff_t i = 0; i < ROWS * nnz; ++i) {
        p.index.push_back((int32_t)(engine() % FEATURES));
        p.value.push_back((float)normal(engine));
    }
    return p;
}

// The subset sums of one row and factor, with their tables before and behind every entry; returns the score.
double plain(const Problem& p, const int32_t* index, const float* value, std::vector<double>& tables, double* out) {
    const int m = p.order, full = (1 << m) - 1;
    double score = 0, share = 1;
    for (int t = 2; t <= m; ++t) share /= t;
    for (ptrdiff_t s = 0; s < p.rank; ++s) {
        auto at = [&](ptrdiff_t i, int t) { return p.doubles[(index[i] * m + t) * p.rank + s] * value[i]; };
        auto let_in = [&](const double* from, double* to, ptrdiff_t i) {
            for (int T = full; T >= 0; --T) {
                to[T] = from[T];
                for (int t = 0; t < m; ++t)
                    if (T >> t & 1) to[T] += at(i, t) * from[T & ~(1 << t)];
            }
        };
        double* before = tables.data();
        double* behind = before + (p.nnz + 1) * (full + 1);
        std::fill(before, before + full + 1, 0.0);
        std::fill(behind + p.nnz * (full + 1), behind + (p.nnz + 1) * (full + 1), 0.0);
        before[0] = behind[p.nnz * (full + 1)] = 1;
        for (ptrdiff_t i = 0; i < p.nnz; ++i) let_in(before + i * (full + 1), before + (i + 1) * (full + 1), i);
        for (ptrdiff_t i = p.nnz; i-- > 0;) let_in(behind + (i + 1) * (full + 1), behind + i * (full + 1), i);
        score += before[p.nnz * (full + 1) + full] * share;
        for (ptrdiff_t i = 0; i < p.nnz; ++i)
            for (int t = 0; t < m; ++t) {
                const int others = full & ~(1 << t);
                double sum = 0;
                for (int A = 0; A <= full; ++A)
                    if ((A & others) == A)
                        sum += before[i * (full + 1) + A] * behind[(i + 1) * (full + 1) + (others & ~A)];
                out[(i * m + t) * p.rank + s] = sum * share * value[i];
            }
    }
    return score;
}

Sample sample(const Problem& p, ptrdiff_t r) {
    return {p.index.data() + r * p.nnz, nullptr, p.value.data() + r * p.nnz, p.nnz};
}

double now() {
    return 1e-9 * std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch()).count();
}

double total = 0;  // so that nothing that is timed can be left out

template <class F>
double best(int runs, F run_row) {
    double least = 1e30;
    for (int i = 0; i < runs; ++i) {
        const double start = now();
        for (ptrdiff_t r = 0; r < ROWS; ++r) total += run_row(r);
        least = std::min(least, now() - start);
    }
    return least / ROWS;
}

void measure(const Kernels* kernels, int order, ptrdiff_t rank, ptrdiff_t nnz, int runs) {
    const Problem p = random_problem(order, rank, nnz);
    const ptrdiff_t lanes = order * rank;
    std::vector<real> tables((nnz << order) * rank), out(nnz * lanes), work(4 * lanes);
    std::vector<double> slow(2 * ((nnz + 1) << order)), slow_out(nnz * lanes);
    Lifted l{order, 0, {}, {}};
    for (int t = 0; t < order; ++t) l.u[t] = {p.u.data() + t * rank, lanes, rank};
    const double unit = 1e-9 * nnz * lanes;
    const double reference = best(std::max(1, runs / 10), [&](ptrdiff_t r) {
        return plain(p, p.index.data() + r * nnz, p.value.data() + r * nnz, slow, slow_out.data());
    });
    const double score = best(runs, [&](ptrdiff_t r) {
        const Sample x = sample(p, r);
        return kernels->lifted(&l, &x, nullptr);
    });
    const double both = best(runs, [&](ptrdiff_t r) {
        const Sample x = sample(p, r);
        const double y = kernels->lifted(&l, &x, tables.data());
        kernels->lifted_gradient(&l, &x, tables.data(), 1, out.data(), nullptr);
        return y;
    });
    const double network = best(runs, [&](ptrdiff_t r) {
        const Sample x = sample(p, r);
        for (int t = 0; t < order; ++t) kernels->project(&l.u[t], &x, nullptr, work.data() + t * rank);
        const double y = kernels->products(work.data(), order, order, rank, nullptr, work.data() + lanes);
        kernels->products_gradient(work.data(), order, order, rank, nullptr, 1, work.data() + 2 * lanes);
        kernels->spread(work.data() + 2 * lanes, lanes, &x, out.data());
        return y;
    });
    std::printf("%5d %4ld %8.3f %8.3f %8.3f %8.1f %9.3f\n", order, (long)rank, score / unit, both / unit,
                reference / unit, reference / both, network / unit);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const Kernels* kernels = fmcli_kernels(argv[1]);
    if (!kernels) return 1;
    const ptrdiff_t nnz = std::atoi(argv[2]);
    const int runs = std::atoi(argv[3]);
    std::printf("%s, %ld non-zeros a row; ns a non-zero, factor and vector\n", kernels->name, (long)nnz);
    std::printf("order rank    score   +grad.   plain    ratio  lifted-pn\n");
    for (int order = 2; order <= 5; ++order)
        for (ptrdiff_t rank : {8, 32}) measure(kernels, order, rank, nnz, runs);
    return total == 0;
}
