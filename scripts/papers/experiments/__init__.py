"""The experiments, a module each, in the order of the page."""

from experiments import (
    ho_bpr,
    ho_figure4,
    ho_levels,
    ho_networks,
    ho_start,
    ho_table3,
    ll,
    peers,
    pn_bases,
    pn_beta,
    pn_figure2,
    pn_ratings,
    pn_theorem2,
    reasons,
    sgl,
    sgl_cost,
    sgl_zeros,
    sh,
    sh_context,
    sh_words,
)

ALL = [
    module.EXPERIMENT
    for module in (
        pn_beta,
        pn_theorem2,
        pn_figure2,
        pn_ratings,
        pn_bases,
        ho_table3,
        ho_start,
        ho_figure4,
        ho_networks,
        ho_bpr,
        ho_levels,
        sh,
        sh_words,
        sh_context,
        sgl,
        sgl_zeros,
        sgl_cost,
        ll,
        peers,
        reasons,
    )
]
