"""Every known way to a green build that must be red, and every way to leak or lose what was paid for.

Each test is one case, told as a user would meet it.
"""
