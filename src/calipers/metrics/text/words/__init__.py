"""How alike two texts are, for many pairs at once: cosine, Jaccard, matched words.

Each function takes two columns of texts and gives a column of numbers in [0, 1], null where one of
the texts is. Two equal texts, two empty ones among them, are 1.
"""

from calipers.metrics.text.words.cosine import cosine
from calipers.metrics.text.words.overlap import jaccard, match_words

__all__ = ["cosine", "jaccard", "match_words"]
