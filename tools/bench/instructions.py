"""Counts the instructions of three kernels under valgrind and compares them with the record.

    python tools/bench/instructions.py

Exits with 1 if a count has grown by more than 2 %. With --write the counts become the record.
"""

import argparse
import csv
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "record" / "instructions.csv"
COLUMNS = ("kernel", "machine", "instructions", "compiler", "date")
EXAMPLE = "instruction_counts"
# Compilers place and schedule a little differently; a kernel that lost a path grows by far more.
GROWTH = 0.02


def output_of(*command):
    """What a program prints, or an exit that says how it failed."""
    words = [str(word) for word in command]
    process = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}\n{process.stderr}")
    return process.stdout.strip()


def built():
    """The program that runs one kernel, in release."""
    output_of("cargo", "build", "--release", "-p", "linwright-tensor", "--example", EXAMPLE)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return ROOT / target / "release" / "examples" / EXAMPLE


def machine_of(program):
    """The instructions that kernels find inside valgrind, which knows no AVX-512."""
    return output_of("valgrind", "--tool=none", "--quiet", program, "machine")


def instructions_of(program, kernel):
    """Instructions between the call of `counted` and its return."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        output_of("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                  "--toggle-collect=*instruction_counts::counted*", program, kernel)
        found = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
    count = int(found.group(1)) if found else 0
    if count == 0:
        sys.exit(f"{kernel}: nothing was counted; does {EXAMPLE}.rs still call `counted`?")
    return count


def read_record():
    """The rows of the record by kernel and machine."""
    if not RECORD.exists():
        return {}
    with open(RECORD, newline="") as file:
        return {(row["kernel"], row["machine"]): row for row in csv.DictReader(file)}


def write_record(rows):
    """Writes the rows in the order of kernels and machines."""
    with open(RECORD, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def grown(kernel, count, row):
    """Prints a count beside its record, and says whether it grew too much."""
    if row is None:
        print(f"{kernel}: {count}, not in the record; --write puts it there")
        return True
    before = int(row["instructions"])
    change = count / before - 1.0
    print(f"{kernel}: {count}, {change:+.2%} of {before} ({row['compiler']}, {row['date']})")
    return change > GROWTH


def main():
    """Counts, compares or writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make these counts the record")
    write = parser.parse_args().write
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: it counts the instructions, and nothing else needs it")
    program = built()
    compiler = output_of("rustc", "--version").removeprefix("rustc ").split(" (")[0]
    machine, rows = machine_of(program), read_record()
    worse = []
    for kernel in output_of(program).split():
        count = instructions_of(program, kernel)
        if write:
            print(f"{kernel}: {count}")
            date = datetime.date.today().isoformat()
            values = (kernel, machine, count, compiler, date)
            rows[kernel, machine] = dict(zip(COLUMNS, values))
        elif grown(kernel, count, rows.get((kernel, machine))):
            worse.append(kernel)
    if write:
        write_record(rows)
    if worse:
        sys.exit(f"more than {GROWTH:.0%} above the record, or not in it: {', '.join(worse)}")


if __name__ == "__main__":
    main()
