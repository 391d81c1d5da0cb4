"""BERTScore: how well the tokens of one text match those of the other (Zhang et al., 2020).

Tokens are vectors of a language model's last layer. Precision is the mean, over the answer's
tokens, of the highest cosine with a token of the reference; recall is the same the other way round.
Special tokens do not take part; there is no idf and no rescaling with a baseline.

PyTorch and Transformers (the extra `semantic`) are imported when a model is needed: never where all
scores are in a cache.
"""

from calipers.metrics.text.semantic.cache import Match
from calipers.metrics.text.semantic.scores import score_pairs

__all__ = ["Match", "score_pairs"]
