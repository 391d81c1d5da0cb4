"""Run a suite: call its systems, journal every reply, score, and decide; finished work is kept."""
