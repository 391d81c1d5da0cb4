"""Answers (Z, S): accuracy, classification, diversity, and agreement of a task's runs."""
