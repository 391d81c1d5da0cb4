"""Batch APIs of providers: replies within a day, at half the price."""
