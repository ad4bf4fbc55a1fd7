"""Preparation of files of rows: splits, tables as rows of features, and negatives for observed pairs."""
