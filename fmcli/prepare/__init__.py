"""Preparation of files of rows: random splits, tables as rows of features, and negatives for observed pairs."""
