// Candidates for the largest of many scores that are known up to an error.
#ifndef FMCLI_SCORING_RECOMMEND_BEST_H
#define FMCLI_SCORING_RECOMMEND_BEST_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace fmcli {

// The candidates of one row. The `wanted` largest lower bounds so far are a heap with the smallest of them first: a
// score whose upper bound is below it is not among the `wanted` largest.
struct Best {
    size_t wanted = 0;
    const int32_t *seen = nullptr, *seen_end = nullptr;  // increasing: the scores to leave out
    std::vector<std::pair<double, int32_t>> kept;        // the upper bound, and the number of the score

    // Takes the scores number first, first + 1, .., each with an error of up to `error`. A NaN score is kept.
    void add(const float* score, ptrdiff_t count, int32_t first, double error) {
        enum { TOGETHER = 32 };
        float cut = cut_at(error);
        ptrdiff_t at = 0;
        while (at < count) {
            const ptrdiff_t end = std::min<ptrdiff_t>(at + TOGETHER, count);
            int some = 0;
            for (ptrdiff_t i = at; i < end; ++i) some |= !(score[i] < cut);
            for (ptrdiff_t i = at; some && i < end; ++i)
                if (!(score[i] < cut)) {
                    enter(score[i], error, first + (int32_t)i);
                    cut = cut_at(error);
                }
            at = end;
        }
    }

    // Drop candidates that cannot be among the largest.
    void prune() {
        const double least = threshold();
        kept.erase(std::remove_if(kept.begin(), kept.end(), [&](auto& one) { return one.first < least; }), kept.end());
    }

   private:
    std::vector<double> lower;
    size_t room = 64;  // of `kept`, until it is pruned

    double threshold() const {
        return lower.size() < wanted ? -std::numeric_limits<double>::infinity() : lower.front();
    }

    // A number to compare scores with: below it, the upper bound is below the threshold.
    float cut_at(double error) const {
        const double cut = threshold() - error;
        return std::isnan(cut) ? -std::numeric_limits<float>::infinity() : std::nextafter((float)cut, -INFINITY);
    }

    void enter(double score, double error, int32_t number) {
        if (std::binary_search(seen, seen_end, number)) return;
        const double low = score - error, high = score + error;
        if (high < threshold()) return;
        kept.emplace_back(std::isnan(high) ? std::numeric_limits<double>::infinity() : high, number);
        if (!std::isnan(low) && (lower.size() < wanted || low > lower.front())) {
            if (lower.size() == wanted) {
                std::pop_heap(lower.begin(), lower.end(), std::greater<double>());
                lower.pop_back();
            }
            lower.push_back(low);
            std::push_heap(lower.begin(), lower.end(), std::greater<double>());
        }
        if (kept.size() >= room) {
            prune();
            room = std::max<size_t>(room, 2 * kept.size());
        }
    }
};

}  // namespace fmcli

#endif
