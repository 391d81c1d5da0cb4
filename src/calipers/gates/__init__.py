"""Gates: a policy, its rules and baselines, and the verdict on a run with its reasons."""
