"""A small solver, to have something to measure: put your own system in its place."""

import re

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def answer(prompt: str) -> str:
    """Solve the question in the first line of a prompt, and end as the prompt asks."""
    question = prompt.splitlines()[0]
    a, b = map(float, NUMBER.findall(question)[:2])
    if "minus" in question:
        return _written(f"{b:g} taken from {a:g}", a - b)
    if "arrives" in question:
        return _written(f"from {a:g} to {b:g}", b - a)
    if "plus" in question:
        return _written(f"{a:g} and {b:g} together", a + b)
    return _written(f"{a:g} times {b:g}", a * b)  # forgets what comes after: word-1 is wrong


def _written(steps: str, result: float) -> str:
    return f"The question asks for {steps}.\nANSWER: {result:g}"
