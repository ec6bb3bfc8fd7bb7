"""Tables of comparisons of one model that differ in their seed and calibration text.

    python3 tools/bench/compare_seeds.py RUN [RUN ...]

reads the `result.json` of every run of `linwright compare` and prints, for each method, the mean of the first metric at
each size, with the smallest and the largest value over the runs in brackets.
"""

import json
import os
import sys


def values(run):
    with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
        compared = json.load(file)["compare"]
    dense = compared["dense"]["results"][0]["metrics"][0]
    cells = {}
    for cell in compared["cells"]:
        model = cell["found"].get("model")
        if model is not None and model["nearest"] is None:
            cells[cell["method"], cell["asked"]] = model["results"][0]["metrics"][0]["value"]
    return dense["name"], dense["value"], compared["keeps"], cells


def shown(numbers):
    mean = sum(numbers) / len(numbers)
    return f"{mean:.3f} ({min(numbers):.3f} to {max(numbers):.3f})"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    runs = [values(run) for run in sys.argv[1:]]
    name, dense, keeps, first = runs[0]
    methods = list(dict.fromkeys(method for method, _ in first))
    print(f"{name}, dense {dense:.4f}, {len(runs)} runs\n")
    print("| method | " + " | ".join(f"keep {keep}" for keep in keeps) + " |")
    print("| --- |" + " ---: |" * len(keeps))
    for method in methods:
        row = []
        for keep in keeps:
            key = (method, keep) if (method, keep) in first else (method, None)
            numbers = [cells[key] for *_, cells in runs if key in cells]
            row.append(shown(numbers) if len(numbers) == len(runs) else "no such size")
        print(f"| {method} | " + " | ".join(row) + " |")


main()
