"""Systems under test: model APIs, Python functions, commands and servers, called alike."""
