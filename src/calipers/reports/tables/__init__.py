"""Documents: a builder per type of result makes its tables and lines once, for all formats."""
