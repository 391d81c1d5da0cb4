"""From a policy file to a verdict with reasons: pure, numbers in and decisions out."""
