"""User-defined metrics: of a field, of an expression, of a function; registered or in a file."""
