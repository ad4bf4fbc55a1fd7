# The formulas of the penalties in C++: of the elementwise penalty, and of group penalties of rows.
from fmcli.penalties.arguments cimport CombinedSteps, ExactStrength, PenaltyStrength, ScaledProx
from libc.stdint cimport int32_t


cdef extern from "fmcli/penalties/elementwise.h" nogil:
    double penalty_of(double v, const ExactStrength& s)
    double prox(double hu, double h, const ExactStrength& s)
    double reduce(double hu, double h, const ExactStrength& s, double& d)
    bint acts(const PenaltyStrength& s)
    ScaledProx scaled_prox(double rate, const PenaltyStrength& s)


cdef extern from "fmcli/penalties/deferred.h" nogil:
    CombinedSteps with_step(const CombinedSteps& before, double rate, double l2)
    int32_t few_steps(double rate, double l2, int32_t most)


cdef extern from "fmcli/penalties/group_penalties.h" nogil:
    const int group_penalties
    const char* group_option(int place)
    bint group_steps_add_up(int place)
    double group_value(int place, const double* v, Py_ssize_t n)
    void group_prox(int place, const double* c, const double* d, Py_ssize_t n, double rest, double strength, double* v)
