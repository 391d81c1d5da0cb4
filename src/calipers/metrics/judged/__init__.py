"""Judged metrics (P, T): what the judgments in a record say."""
