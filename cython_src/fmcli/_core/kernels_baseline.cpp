#define TABLE fmcli_kernels_baseline
#define NAME "baseline"

#include "kernels.inl"

