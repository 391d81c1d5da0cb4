"""The data of a report, collected and measured; the only part of `reports/` that computes."""
