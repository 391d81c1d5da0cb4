"""Batch APIs of providers: replies within a day, at half the price."""

MOST_CALLS = 10_000  # of a batch; providers take 50,000 and more
