"""Text similarity (P, tier 1): an answer against its reference."""
