"""The experiments, a module each, in the order of the page."""

from experiments import ll, pn_beta

ALL = [module.EXPERIMENT for module in (ll, pn_beta)]
