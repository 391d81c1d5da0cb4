"""Suite to calls to journal: what is called, how fast, how often, for how much; nothing is lost."""
