"""Calibration (Z): stated probabilities against what happened."""
