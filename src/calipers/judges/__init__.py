"""Judges: rubrics, requests, answers, panels, comparisons in pairs, calibration and audit."""
