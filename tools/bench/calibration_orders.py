"""Writes the documents of a JSONL file in three random orders, for comparisons over seeds.

    python3 tools/bench/calibration_orders.py texts.jsonl calibration

writes calibration-0.jsonl, calibration-1.jsonl and calibration-2.jsonl: a comparison that takes the first tokens of each
calibrates on other documents for each seed.
"""

import random
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, stem = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        documents = [line for line in file if line.strip()]
    for seed in range(3):
        order = list(documents)
        random.Random(seed).shuffle(order)
        with open(f"{stem}-{seed}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(order)


main()
