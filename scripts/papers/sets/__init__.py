"""Builders of the data of the experiments, from raw files."""
