"""What is called: model APIs, Python functions, commands and servers; all are asked alike."""
