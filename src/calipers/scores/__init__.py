"""Records, metrics and an engine to a score: every metric with its interval."""
