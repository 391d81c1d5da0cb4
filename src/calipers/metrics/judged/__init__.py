"""Judged metrics (P, T), from the judgments in a record."""
