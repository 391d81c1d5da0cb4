"""Cost and speed (Z, T, S): tokens, latency, dollars, cost of pass."""
