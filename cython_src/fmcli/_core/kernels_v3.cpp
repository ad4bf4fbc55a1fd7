#define TABLE fmcli_kernels_v3
#define NAME "v3"
#if defined(__x86_64__)
#pragma GCC target("arch=x86-64-v3")
#include "kernels.inl"
#endif
