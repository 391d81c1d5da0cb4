"""Compare runs, rank systems, plan sample sizes, measure agreement of raters, diagnose files."""
