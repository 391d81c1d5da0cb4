"""Models asked by the batch: a provider answers within a day, at half its price."""
