#define TABLE fmcli_kernels_v4
#define NAME "v4"
#if defined(__x86_64__)
#pragma GCC target("arch=x86-64-v4")
#include "kernels.inl"
#endif
