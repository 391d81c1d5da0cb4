"""A small solver, to have something to compare: told to think step by step, it forgets less."""

import re

NUMBER = re.compile(r"\d+")


def answer(prompt: str) -> str:
    """Solve the question in the first line of a prompt, and end as the prompt asks."""
    count, each, less = map(int, NUMBER.findall(prompt.splitlines()[0]))
    bought = count * each
    if "step by step" in prompt:
        steps = f"{count} times {each} is {bought}, and {less} fewer is {bought - less}."
        return f"{steps}\n{_end(bought - less)}"
    forgets = less % 3 == 0  # what was given away, now and then
    return _end(bought if forgets else bought - less)


def _end(result: int) -> str:
    return f"ANSWER: {result}"
