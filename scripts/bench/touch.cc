// The least that an epoch can take: every non-zero's row of some cache lines is read and written, with nothing computed.
//
//     touch ROWS FIELDS FEATURES LINES RUNS < ids
//
// Prints the seconds of the fastest of the runs through the ids (int32, ROWS x FIELDS) in a shuffled order of rows.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

struct Line {
    float values[16];
};

int main(int, char** argv) {
    const size_t rows = atol(argv[1]), fields = atol(argv[2]), features = atol(argv[3]);
    const size_t width = atol(argv[4]), ahead = 4;
    std::vector<int32_t> ids(rows * fields);
    if (fread(ids.data(), sizeof(int32_t), ids.size(), stdin) != ids.size()) return 1;
    void* memory = nullptr;
    if (posix_memalign(&memory, 2 << 20, features * width * sizeof(Line))) return 1;
    madvise(memory, features * width * sizeof(Line), MADV_HUGEPAGE);
    Line* lines = static_cast<Line*>(memory);
    std::fill_n(lines, features * width, Line{});
    std::vector<int32_t> order(rows);
    for (size_t i = 0; i < rows; ++i) order[i] = static_cast<int32_t>(i);
    std::shuffle(order.begin(), order.end(), std::mt19937(0));
    double best = 1e9;
    for (int run = atoi(argv[5]); run > 0; --run) {
        const auto begin = std::chrono::steady_clock::now();
        for (size_t i = 0; i < rows; ++i) {
            if (i + 2 * ahead < rows) __builtin_prefetch(&ids[order[i + 2 * ahead] * fields]);
            if (i + ahead < rows)
                for (size_t j = 0; j < fields; ++j)
                    for (size_t l = 0; l < width; ++l)
                        __builtin_prefetch(&lines[ids[order[i + ahead] * fields + j] * width + l], 1);
            for (size_t j = 0; j < fields; ++j)
                for (size_t l = 0; l < width; ++l)
                    for (float& value : lines[ids[order[i] * fields + j] * width + l].values) value += 1;
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        best = std::min(best, took.count());
    }
    printf("%.6f\n", best);
}
