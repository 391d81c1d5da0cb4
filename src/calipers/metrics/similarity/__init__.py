"""How similar two texts are: by their words, or by a language model (BERTScore)."""
