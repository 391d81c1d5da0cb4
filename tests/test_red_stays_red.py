"""Every known way to a green build that must be red, and every way to leak or lose what was paid for.

Each test is one case, told as a user would meet it.
"""

from __future__ import annotations

# --- Gate: verdicts ---------------------------------------------------------------------------

# --- Judges: injections, answers, calibration ---------------------------------------------------

# --- Runs: stale answers, calls in flight -------------------------------------------------------

# --- Runs: keys, odd replies, truncation --------------------------------------------------------

# --- Input: hostile and unknown files -----------------------------------------------------------

# --- Failed records, frontier, prices -----------------------------------------------------------

# --- Evidence: intervals, comparisons, baselines ------------------------------------------------
