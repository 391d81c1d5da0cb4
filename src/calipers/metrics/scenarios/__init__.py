"""Scenarios (S): passing, behaviors, weights, pass@k, the final score."""
