"""Calibration (Z): stated probabilities against outcomes."""
