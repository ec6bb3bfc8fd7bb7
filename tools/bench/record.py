"""Rows of a record: a CSV file with one measured quantity a line."""

import csv
import os
import pathlib
import statistics

COLUMNS = ("benchmark", "model", "subject", "setting", "quantity", "unit", "median", "min", "max",
           "rounds")


def append(path, benchmark, model, subject, setting, quantity, unit, values):
    """Adds a quantity that was measured once or more often, and prints it."""
    path = pathlib.Path(path)
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    row = (benchmark, model, subject, setting, quantity, unit,
           f"{statistics.median(values):.6g}", f"{min(values):.6g}", f"{max(values):.6g}",
           len(values))
    with open(path, "a", newline="") as file:
        writer = csv.writer(file, lineterminator=os.linesep)
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(row)
    print(",".join(map(str, row)), flush=True)
