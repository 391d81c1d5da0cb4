"""Sabotage: records broken on purpose, in doses, to see which damage a gate does not notice.

What mutation testing is for tests, this is for policies: `kinds` says where records can be broken
and how, `trials` breaks them in memory and has the gate decide on them as on any others. Nothing is
called and nothing is written.
"""
