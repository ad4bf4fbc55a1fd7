// The terms of a score, one for each set of entries of a row (fmcli/models/split.py), in double precision.
#ifndef FMCLI_SCORING_EXPLAIN_TERMS_H
#define FMCLI_SCORING_EXPLAIN_TERMS_H

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "fmcli/base/types.h"
#include "fmcli/base/places.h"

namespace fmcli {

typedef std::vector<double> Numbers;

// The interface of all forms of terms, for a row. `share` is the sum of the terms of the sets with an entry, each
// divided by the number of the set's entries: the entry's Shapley value.
struct Terms {
    virtual ~Terms() {}
    // Prefetch the memory of a row that will be read soon.
    virtual void prefetch(const Sample&) const {}
    // shares[i] += the share of entry i; returns the sum of all terms.
    virtual double shares(const Sample& x, double* shares) = 0;
    // The largest number of entries of a set with terms.
    virtual ptrdiff_t largest(const Sample& x) const = 0;
    // out[..] += the terms of all sets of `size` entries, in the order of their entries.
    virtual void list(const Sample& x, ptrdiff_t size, double* out) = 0;
    // The sum of the terms of all sets of `size` entries.
    virtual double sum(const Sample& x, ptrdiff_t size) = 0;
    // If a row is the union of two rows without common features, its sum of terms is the sum of the terms of each, plus
    // the inner product of a vector of each, with `width` numbers. This writes the vector of the `second` or the first
    // row, and returns the sum of its own terms.
    virtual ptrdiff_t width() const = 0;
    virtual double half(const Sample& x, bool second, double* out) = 0;
    // Whether halves use absolute values of parameters and values, and each entry twice: then the score of the union is
    // an upper bound of the sum of all magnitudes that add up to it, whatever the formula.
    bool bounding = false;

   protected:
    double signed_(double number) const { return bounding ? std::fabs(number) : number; }
    int times() const { return bounding ? 2 : 1; }
};

// Replaces a set of entries i_1 < i_2 < .. by the next one in lexicographic order; returns false after the last.
inline bool next_set(std::vector<ptrdiff_t>& set, ptrdiff_t entries) {
    const ptrdiff_t size = (ptrdiff_t)set.size();
    ptrdiff_t at = size - 1;
    while (at >= 0 && set[at] == entries - size + at) --at;
    if (at < 0) return false;
    ++set[at];
    for (++at; at < size; ++at) set[at] = set[at - 1] + 1;
    return true;
}

struct FactorSlot {
    const real* at;  // (features, rank)
    const int32_t* group;
    int32_t side;
};

struct Monomial {
    ptrdiff_t parent, slot;
};

struct Move {
    ptrdiff_t source, monomial, target;
    double times;
};

// fmcli.models.split.Products. Numbers are in rows of `rank`: [state or monomial][factor].
struct ProductTerms : Terms {
    ptrdiff_t rank;
    std::vector<FactorSlot> slots;
    std::vector<Monomial> monomials;
    std::vector<ptrdiff_t> sizes;
    std::vector<Move> moves;
    Numbers weight;
    std::vector<ptrdiff_t> places;  // of each state in the vectors of halves; -1: none

    void prefetch(const Sample& x) const override {
        for (const FactorSlot& slot : slots)
            for (ptrdiff_t i = 0; i < x.nnz; ++i) prefetch_reals(slot.at + x.index[i] * rank, rank);
    }

    double shares(const Sample& x, double* out) override {
        if (slots.size() == 1 && sizes.size() == 3 && moves.size() == 2) return second_order(x, out);
        const ptrdiff_t n = x.nnz, width = (ptrdiff_t)sizes.size() * rank;
        states.assign((n + 1) * width, 0.0);
        products.resize(n * monomials.size() * rank);
        std::fill_n(states.begin(), rank, 1.0);
        for (ptrdiff_t i = 0; i < n; ++i) {
            const double* before = &states[i * width];
            double* const after = &states[(i + 1) * width];
            std::copy_n(before, width, after);
            enter(x, i, product(i));
            for (const Move& move : moves)
                add(after + move.target * rank, move.times, product(i) + move.monomial * rank,
                    before + move.source * rank);
        }
        const double total = weighted(&states[n * width], 1, (ptrdiff_t)sizes.size());
        // The derivatives of sum(weight / size * state) by the states, and by each entry's monomials.
        slopes.resize(width);
        of_products.resize(monomials.size() * rank);
        for (size_t s = 0; s < sizes.size(); ++s)
            for (ptrdiff_t f = 0; f < rank; ++f)
                slopes[s * rank + f] = sizes[s] ? weight[s * rank + f] / (double)sizes[s] : 0;
        for (ptrdiff_t i = n; i-- > 0;) {
            const double* before = &states[i * width];
            std::fill(of_products.begin(), of_products.end(), 0.0);
            // Smallest sets first: a slope is read before the moves that change it.
            for (size_t m = moves.size(); m-- > 0;) {
                const Move& move = moves[m];
                const double* slope = &slopes[move.target * rank];
                add(&of_products[move.monomial * rank], move.times, slope, before + move.source * rank);
                add(&slopes[move.source * rank], move.times, slope, product(i) + move.monomial * rank);
            }
            double share = 0;
            for (size_t at = 0; at < of_products.size(); ++at) share += of_products[at] * product(i)[at];
            out[i] += share;
        }
        return total;
    }

    ptrdiff_t largest(const Sample& x) const override {
        return std::min<ptrdiff_t>(x.nnz, *std::max_element(sizes.begin(), sizes.end()));
    }

    void list(const Sample& x, ptrdiff_t size, double* out) override {
        products.resize(x.nnz * monomials.size() * rank);
        for (ptrdiff_t i = 0; i < x.nnz; ++i) enter(x, i, product(i));
        states.assign((size + 1) * sizes.size() * rank, 0.0);
        std::fill_n(states.begin(), rank, 1.0);
        extend(x.nnz, size, 0, 0, &out);
    }

    double sum(const Sample& x, ptrdiff_t size) override {
        const ptrdiff_t width = (ptrdiff_t)sizes.size() * rank;
        states.assign(width, 0.0);
        products.resize(monomials.size() * rank);
        std::fill_n(states.begin(), rank, 1.0);
        for (ptrdiff_t i = 0; i < x.nnz; ++i) {
            enter(x, i, product(0));
            for (const Move& move : moves)
                add(&states[move.target * rank], move.times, product(0) + move.monomial * rank,
                    &states[move.source * rank]);
        }
        return weighted_of(states.data(), size);
    }

    ptrdiff_t width() const override { return (1 + *std::max_element(places.begin(), places.end())) * rank; }

    // The first half's vector has the states after its entries; the second half's has the change of the score's slope
    // in each state by its entries. States with equal slopes share a place.
    double half(const Sample& x, bool second, double* out) override {
        const ptrdiff_t count = (ptrdiff_t)sizes.size();
        products.resize(monomials.size() * rank);
        std::fill_n(out, width(), 0.0);
        states.assign(count * rank, 0.0);
        if (second) {
            for (ptrdiff_t at = rank; at < count * rank; ++at) states[at] = signed_(weight[at]);
        } else {
            std::fill_n(states.begin(), rank, 1.0);
        }
        for (ptrdiff_t i = 0; i < x.nnz; ++i) {
            enter(x, i, product(0));
            for (int time = 0; time < times(); ++time)
                for (size_t m = 0; m < moves.size(); ++m) {
                    // In the order of the states that change: no move reads a state that its entry has already changed.
                    const Move& move = moves[second ? moves.size() - 1 - m : m];
                    const ptrdiff_t from = second ? move.target : move.source, to = second ? move.source : move.target;
                    add(&states[to * rank], move.times, product(0) + move.monomial * rank, &states[from * rank]);
                }
        }
        double own = 0;
        for (ptrdiff_t f = 0; second && f < rank; ++f) own += states[f];
        for (ptrdiff_t at = rank; !second && at < count * rank; ++at) own += signed_(weight[at]) * states[at];
        for (ptrdiff_t s = 0; s < count; ++s)
            for (ptrdiff_t f = 0; places[s] >= 0 && f < rank; ++f) {
                double* const number = out + places[s] * rank + f;
                if (second)
                    *number = states[s * rank + f] - signed_(weight[s * rank + f]);
                else
                    *number += states[s * rank + f];
            }
        return own;
    }

   private:
    Numbers states, products, slopes, of_products;

    // The kernels of degrees 1 and 2, in closed form: with s = sum_j a_j, the share of j is a_j (w_1 + w_2 (s - a_j) /
    // 2).
    double second_order(const Sample& x, double* out) {
        const double *linear = &weight[rank], *pairs = &weight[2 * rank];
        products.resize(x.nnz * rank);
        states.assign(rank, 0.0);
        double* const __restrict sum = states.data();
        for (ptrdiff_t i = 0; i < x.nnz; ++i) {
            double* const __restrict a = product(i);
            const real* const row = slots[0].at + x.index[i] * rank;
            const double value = value_of(x, i, slots[0]);
            for (ptrdiff_t f = 0; f < rank; ++f) {
                a[f] = value * row[f];
                sum[f] += a[f];
            }
        }
        double total = 0;
        for (ptrdiff_t i = 0; i < x.nnz; ++i) {
            const double* const a = product(i);
            double share = 0;
            for (ptrdiff_t f = 0; f < rank; ++f) share += a[f] * (linear[f] + 0.5 * pairs[f] * (sum[f] - a[f]));
            out[i] += share;
            total += share;
        }
        return total;
    }

    double* product(ptrdiff_t i) { return products.data() + i * (ptrdiff_t)monomials.size() * rank; }

    void add(double* out, double times, const double* a, const double* b) const {
        for (ptrdiff_t f = 0; f < rank; ++f) out[f] += times * a[f] * b[f];
    }

    double value_of(const Sample& x, ptrdiff_t i, const FactorSlot& slot) const {
        return slot.group && slot.group[x.index[i]] != slot.side ? 0 : signed_(x.value[i]);
    }

    // The monomials of an entry.
    void enter(const Sample& x, ptrdiff_t i, double* out) const {
        for (size_t m = 0; m < monomials.size(); ++m) {
            const FactorSlot& slot = slots[monomials[m].slot];
            const real* row = slot.at + x.index[i] * rank;
            const double value = value_of(x, i, slot);
            const double* parent = monomials[m].parent < 0 ? nullptr : out + monomials[m].parent * rank;
            for (ptrdiff_t f = 0; f < rank; ++f)
                out[m * rank + f] = (parent ? parent[f] : 1) * (value * signed_(row[f]));
        }
    }

    double weighted(const double* state, ptrdiff_t first, ptrdiff_t last) const {
        double total = 0;
        for (ptrdiff_t at = first * rank; at < last * rank; ++at) total += weight[at] * state[at];
        return total;
    }

    double weighted_of(const double* state, ptrdiff_t size) const {
        double total = 0;
        for (ptrdiff_t s = 0; s < (ptrdiff_t)sizes.size(); ++s)
            if (sizes[s] == size) total += weighted(state, s, s + 1);
        return total;
    }

    // Add each entry from `first` on to a set of `depth` entries, whose states are known.
    void extend(ptrdiff_t entries, ptrdiff_t size, ptrdiff_t depth, ptrdiff_t first, double** out) {
        const ptrdiff_t width = (ptrdiff_t)sizes.size() * rank;
        double* const state = &states[depth * width];
        if (depth == size) {
            *(*out)++ += weighted_of(state, size);
            return;
        }
        for (ptrdiff_t i = first; i <= entries - (size - depth); ++i) {
            std::fill_n(state + width, width, 0.0);
            for (const Move& move : moves)
                if (sizes[move.source] == depth)
                    add(state + width + move.target * rank, move.times, product(i) + move.monomial * rank,
                        state + move.source * rank);
            extend(entries, size, depth + 1, i + 1, out);
        }
    }
};

// The nodes and weights of Gauss-Legendre quadrature on 0..1, for each number of nodes: by Newton's method from the
// usual approximation of the roots of the Legendre polynomial.
struct Quadrature {
    enum { MOST = 64 };
    Numbers node[MOST + 1], weight[MOST + 1];

    Quadrature() {
        for (int n = 1; n <= MOST; ++n)
            for (int i = 0; i < n; ++i) {
                double z = std::cos(M_PI * (i + 0.75) / (n + 0.5)), slope = 1;
                for (int step = 0; step < 16; ++step) {
                    double value = 1, before = 0;
                    for (int k = 1; k <= n; ++k) {
                        const double next = ((2 * k - 1) * z * value - (k - 1) * before) / k;
                        before = value;
                        value = next;
                    }
                    slope = n * (z * value - before) / (z * z - 1);
                    z -= value / slope;
                }
                node[n].push_back(0.5 - 0.5 * z);
                weight[n].push_back(1 / ((1 - z * z) * slope * slope));
            }
    }
};

// fmcli.models.split.EverySubset: for each factor, prod_j (1 + a_j) - 1. The share of j is the integral of a_j
// prod_{l != j} (1 + z a_l) over z from 0 to 1. For up to 128 entries, the quadrature is exact; for more, its error is
// below the rounding of a score, unless the sum of the |a_l| is near 100 and the product near the largest number.
struct SubsetTerms : Terms {
    ptrdiff_t rank;
    const real* factors;

    double shares(const Sample& x, double* out) override {
        static const Quadrature rules;
        const ptrdiff_t n = x.nnz;
        const int nodes = (int)std::min<ptrdiff_t>((n + 1) / 2, Quadrature::MOST);
        before.resize(n + 1);
        double total = 0;
        for (ptrdiff_t f = 0; f < rank; ++f) {
            load(x, f);
            total += joint(x.nnz);
            for (int q = 0; q < nodes; ++q) {
                const double z = rules.node[nodes][q], weight = rules.weight[nodes][q];
                before[0] = 1;
                for (ptrdiff_t i = 0; i < n; ++i) before[i + 1] = before[i] * (1 + z * a[i]);
                double after = weight;
                for (ptrdiff_t i = n; i-- > 0; after *= 1 + z * a[i]) out[i] += a[i] * before[i] * after;
            }
        }
        return total;
    }

    ptrdiff_t largest(const Sample& x) const override { return x.nnz; }

    void list(const Sample& x, ptrdiff_t size, double* out) override {
        std::vector<ptrdiff_t> set(size);
        for (ptrdiff_t f = 0; f < rank; ++f) {
            load(x, f);
            for (ptrdiff_t i = 0; i < size; ++i) set[i] = i;
            double* at = out;
            do {
                double product = 1;
                for (ptrdiff_t i : set) product *= a[i];
                *at++ += product;
            } while (next_set(set, x.nnz));
        }
    }

    double sum(const Sample& x, ptrdiff_t size) override {
        double total = 0;
        for (ptrdiff_t f = 0; f < rank; ++f) {
            load(x, f);
            before.assign(size + 1, 0.0);
            before[0] = 1;
            for (double one : a)
                for (ptrdiff_t t = size; t > 0; --t) before[t] += one * before[t - 1];
            total += before[size];
        }
        return total;
    }

    ptrdiff_t width() const override { return rank; }

    // prod (1 + a) - 1 over both halves is the sum of this term of each half, plus their product.
    double half(const Sample& x, bool, double* out) override {
        double own = 0;
        for (ptrdiff_t f = 0; f < rank; ++f) {
            load(x, f);
            out[f] = joint(x.nnz);
            if (bounding) out[f] *= 2 + out[f];
            own += out[f];
        }
        return own;
    }

   private:
    Numbers a, before;

    void load(const Sample& x, ptrdiff_t f) {
        a.resize(x.nnz);
        for (ptrdiff_t i = 0; i < x.nnz; ++i) a[i] = signed_((double)factors[x.index[i] * rank + f] * x.value[i]);
    }

    // prod (1 + a) - 1, without forming the 1, which would take digits from small terms.
    double joint(ptrdiff_t n) const {
        double total = 0;
        for (ptrdiff_t i = 0; i < n; ++i) total += a[i] * (1 + total);
        return total;
    }
};

// Terms of pairs of entries only.
struct PairTerms : Terms {
    virtual double pair(const Sample& x, ptrdiff_t i, ptrdiff_t j) const = 0;

    double shares(const Sample& x, double* out) override {
        double total = 0;
        for (ptrdiff_t i = 0; i < x.nnz; ++i)
            for (ptrdiff_t j = i + 1; j < x.nnz; ++j) {
                const double term = pair(x, i, j);
                out[i] += 0.5 * term;
                out[j] += 0.5 * term;
                total += term;
            }
        return total;
    }

    ptrdiff_t largest(const Sample& x) const override { return std::min<ptrdiff_t>(x.nnz, 2); }

    void list(const Sample& x, ptrdiff_t size, double* out) override {
        if (size != 2) return;
        for (ptrdiff_t i = 0; i < x.nnz; ++i)
            for (ptrdiff_t j = i + 1; j < x.nnz; ++j) *out++ += pair(x, i, j);
    }

    double sum(const Sample& x, ptrdiff_t size) override {
        double total = 0;
        for (ptrdiff_t i = 0; size == 2 && i < x.nnz; ++i)
            for (ptrdiff_t j = i + 1; j < x.nnz; ++j) total += pair(x, i, j);
        return total;
    }

    ptrdiff_t width() const override { return 0; }

    double half(const Sample& x, bool, double*) override {
        double own = 0;
        for (ptrdiff_t i = 0; i < x.nnz; ++i)
            for (ptrdiff_t j = i + 1; j < x.nnz; ++j) own += signed_(pair(x, i, j));
        return own;
    }
};

struct FieldPairTerms : PairTerms {
    ptrdiff_t rank, fields;
    const real* factors;  // (features, fields, rank)
    std::vector<int32_t> first, second;  // the fields of the two halves

    ptrdiff_t width() const override { return (ptrdiff_t)(first.size() * second.size()) * rank; }

    // For each pair of a field of the first half and a field of the second: the sum, over the half's entries in its
    // field, of the factors for the other field.
    double half(const Sample& x, bool is_second, double* out) override {
        std::fill_n(out, width(), 0.0);
        for (ptrdiff_t i = 0; x.field && i < x.nnz; ++i)
            for (size_t a = 0; a < first.size(); ++a)
                for (size_t b = 0; b < second.size(); ++b) {
                    const int32_t own = is_second ? second[b] : first[a], other = is_second ? first[a] : second[b];
                    if (x.field[i] != own || std::max(own, other) >= fields) continue;
                    const real* row = factors + (x.index[i] * fields + other) * rank;
                    double* to = out + (ptrdiff_t)(a * second.size() + b) * rank;
                    for (ptrdiff_t f = 0; f < rank; ++f) to[f] += signed_((double)row[f] * x.value[i]);
                }
        return PairTerms::half(x, is_second, out);
    }

    double pair(const Sample& x, ptrdiff_t i, ptrdiff_t j) const override {
        if (!x.field || x.field[i] >= fields || x.field[j] >= fields) return 0;
        const int32_t f = x.field[i], g = x.field[j];
        const real* a = factors + (x.index[i] * fields + g) * rank;
        const real* b = factors + (x.index[j] * fields + f) * rank;
        double total = 0;
        for (ptrdiff_t s = 0; s < rank; ++s) total += (double)a[s] * (double)b[s];
        return total * ((double)x.value[i] * x.value[j]);
    }
};

struct TablePairTerms : PairTerms {
    const real* weights;
    int bits;

    double pair(const Sample& x, ptrdiff_t i, ptrdiff_t j) const override {
        return (double)weights[pair_place(x.index[i], x.index[j], bits)] * ((double)x.value[i] * x.value[j]);
    }
};

}  // namespace fmcli

#endif
