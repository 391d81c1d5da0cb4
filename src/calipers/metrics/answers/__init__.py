"""Answers (Z, S): accuracy, classification, diversity, and what a task's runs have in common."""
