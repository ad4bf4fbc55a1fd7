// The nearest of many points, one after the other: a heap on their numbers, made in place.
#ifndef FMCLI_CODING_H
#define FMCLI_CODING_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fmcli {

// The order of a heap whose first is the nearest, of equally near ones that with the lowest number.
struct Farther {
    const double* distance;

    bool operator()(std::int32_t one, std::int32_t other) const {
        return distance[one] > distance[other] || (distance[one] == distance[other] && one > other);
    }
};

// points[0..n) <- 0, 1, .., n - 1 as a heap. Distances that are not numbers give some order.
inline void start_nearest(const double* distance, std::ptrdiff_t n, std::int32_t* points) {
    for (std::ptrdiff_t i = 0; i < n; ++i) points[i] = static_cast<std::int32_t>(i);
    std::make_heap(points, points + n, Farther{distance});
}

// The nearest of a heap of n points, which goes to points[n - 1] and leaves a heap of the others before it.
inline std::int32_t pop_nearest(const double* distance, std::ptrdiff_t n, std::int32_t* points) {
    std::pop_heap(points, points + n, Farther{distance});
    return points[n - 1];
}

// Of n points, of which some were popped: these come first, in their order.
inline void put_first(std::ptrdiff_t n, std::int32_t* points) { std::reverse(points, points + n); }

}  // namespace fmcli

#endif
