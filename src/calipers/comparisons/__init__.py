"""Questions between runs, systems and raters: compare, power, agree."""
