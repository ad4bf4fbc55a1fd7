// The first phase of block steps for models of second order with one output: the scores of samples, and what their
// gradients depend on. The functions are those of runs of samples.

#include "fmcli/base/prefetch.h"
#include "fmcli/kernels/kernels.h"

namespace {

// `order` of the run is not used: the samples are consecutive rows.
template <ptrdiff_t LANES_EACH>
void each_gradient(const BlockSamples samples) {
    const SampleRun& run = samples.run;
    const Csr data = *run.data;
    const RunModel<LANES_EACH> model(run);
    const Block features = model.features;
    const real *const constant = model.constant, *const beta = model.beta;
    const ptrdiff_t lanes = features.lanes;
    auto prefetch = [&](ptrdiff_t i) __attribute__((always_inline)) {
        const Sample x = sample_of(&data, i);
        prefetch_rows<true>(features, x.index, x.nnz, 0);
    };
    for (ptrdiff_t i = run.start; i < run.stop && i < run.start + RUN_AHEAD; ++i) prefetch(i);
    for (ptrdiff_t i = run.start; i < run.stop; ++i) {
        if (i + RUN_AHEAD < run.stop) prefetch(i + RUN_AHEAD);
        const ptrdiff_t at = i - samples.begin;
        double slope;
        samples.loss[at] = model.loss(run, i, sample_of(&data, i), run.sums, slope);
        samples.slope[at] = (real)slope;
        for (ptrdiff_t f = 0; f < lanes; f += LANES) store(samples.sums + at * lanes + f, load<Vec4>(run.sums + f));
        if (model.bias) samples.of_bias[at] = (real)slope;
        if (constant || beta)
            structural_gradient(run.sums, constant, beta, lanes, slope, samples.of_constant + at * lanes,
                                samples.of_beta + at * lanes);
    }
}

void block_gradients(const BlockSamples* samples) {
    if (samples->run.block[samples->run.features].lanes == 8)
        each_gradient<8>(*samples);
    else
        each_gradient<-1>(*samples);
}

}  // namespace
