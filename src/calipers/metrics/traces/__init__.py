"""Traces (P, tier 3): tool use and coordination."""
