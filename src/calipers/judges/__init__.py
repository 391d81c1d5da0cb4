"""Rubrics, what a judge is asked, and what counts as its answer; who is asked is not known here."""
