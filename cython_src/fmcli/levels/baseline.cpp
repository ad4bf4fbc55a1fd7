#define TABLE fmcli_kernels_baseline
#define NAME "baseline"

#include "fmcli/levels/kernels.inl"

