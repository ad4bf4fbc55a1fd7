#define TABLE fmcli_kernels_baseline
#define NAME "baseline"

#include "fmcli/kernels/kernels.inl"

