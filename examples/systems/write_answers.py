"""Write a spreadsheet of answers: a question a row, a column for each of three models.

python write_answers.py [-o answers.csv]

All of it is made up: no model is asked.
"""

import argparse
import csv
from pathlib import Path

MODELS = {"Model A": 9, "Model B": 5, "Model C": 2}  # every n-th answer is wrong


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, default=Path("answers.csv"))
    with parser.parse_args().output.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Question", "Gold Answer", *MODELS])
        for number in range(1, 41):
            right = 12 * number
            said = (right if number % step else right - 10 for step in MODELS.values())
            table.writerow([f"What is 12 times {number}?", right, *said])


if __name__ == "__main__":
    main()
