// Points in order of increasing distance, one at a time: a heap of their indices, built in place.
#ifndef FMCLI_CODING_H
#define FMCLI_CODING_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fmcli {

// Order of a heap whose first element is the nearest point; ties go to the lowest index.
struct Farther {
    const double* distance;

    bool operator()(std::int32_t one, std::int32_t other) const {
        return distance[one] > distance[other] || (distance[one] == distance[other] && one > other);
    }
};

// points[0..n) <- 0, 1, .., n - 1 as a heap. If distances are NaN, the order is arbitrary.
inline void start_nearest(const double* distance, std::ptrdiff_t n, std::int32_t* points) {
    for (std::ptrdiff_t i = 0; i < n; ++i) points[i] = static_cast<std::int32_t>(i);
    std::make_heap(points, points + n, Farther{distance});
}

// Returns the nearest of a heap of n points and moves it to points[n - 1]; the other points remain a heap before it.
inline std::int32_t pop_nearest(const double* distance, std::ptrdiff_t n, std::int32_t* points) {
    std::pop_heap(points, points + n, Farther{distance});
    return points[n - 1];
}

// Moves the popped points to the front of the n points, in the order in which they were popped.
inline void put_first(std::ptrdiff_t n, std::int32_t* points) { std::reverse(points, points + n); }

}  // namespace fmcli

#endif
