"""The language that metrics are declared in: features, aggregates, intervals."""
