"""The writer of weights runs where llama.cpp is installed, not here."""

collect_ignore = ["write_gguf.py"]
