"""What a user can ask of each command of this room, a file per command.

A field that `option` makes is an option of the command line and a keyword in Python.
"""
