"""Slow definitions to test the fast code against: each is written so that a reader believes it at sight."""
