"""Slow reference definitions that the fast code is tested against. Each is simple enough to be checked by reading."""
