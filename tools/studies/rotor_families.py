"""Whether a smaller error of the fits makes a better model, from the run of every kind of operator.

    linwright run -r every-family-pocket -o OUT
    python tools/studies/rotor_families.py OUT > benchmarks/record/recipes/every-family-pocket-errors.md

Rank correlations over methods of the error of the fits on held-out activations with the loss of the model on held-out text, for
each set of layers and each size, and for all sizes together; p by 10,000 permutations of the errors, two-sided, seed 0. Means over
the seeds. Needs the standard library alone.
"""

import json
import pathlib
import random
import statistics
import sys

PERMUTATIONS = 10_000
SIZES = ("500", "1500", "4000", "12000")
#: Headings of the comparisons by the names of their jobs.
TABLES = {"query-key-and-value": "Query, key and value", "query-alone": "Query alone"}
#: Rows that are no fit of an operator: nothing is fitted, or what is fitted is the dense weight.
CONTROLS = ("untouched", "nothing")
#: Maps that were drawn and not fitted.
DRAWN = ("drawn", "random")


def nll(results):
    text = next(result for result in results if result["task"] == "text")
    return next(metric["value"] for metric in text["metrics"] if metric["name"] == "nll_nats_per_token")


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            found[order[place]] = (start + end) / 2
        start = end + 1
    return found


def correlation(one, other):
    one, other = ranks(one), ranks(other)
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(one, other)


def tested(errors, losses):
    """The rank correlation, and the share of permutations with one as far from zero."""
    found = correlation(errors, losses)
    if found is None:
        return None, None
    stream, shuffled, as_far = random.Random(0), list(errors), 0
    for _ in range(PERMUTATIONS):
        stream.shuffle(shuffled)
        as_far += abs(correlation(shuffled, losses)) >= abs(found) - 1e-12
    return found, (as_far + 1) / (PERMUTATIONS + 1)


def means(jobs):
    """Mean error of the fits and loss by table, number of layers and row, in the order of the results."""
    found = {}
    for name, result in jobs.items():
        for cell in result["compare"]["cells"]:
            model = cell["found"]["model"]
            error = statistics.fmean(site["relative_error"] for site in model["fits"]["sites"])
            row = cell.get("label", cell["method"])
            key = (TABLES.get(name, name), len(cell["place"]["layers"]), row)
            found.setdefault(key, []).append((error, nll(model["results"])))
    return {key: tuple(statistics.fmean(column) for column in zip(*values)) for key, values in found.items()}


def size_of(method):
    return next((word for word in method.split() if word in SIZES), None)


def is_low_rank(method):
    return "trained" in method or any(word.startswith("LR") for word in method.split())


def main():
    jobs = json.loads((pathlib.Path(sys.argv[1]) / "results.json").read_text())["jobs"]
    dense, cells = nll(next(iter(jobs.values()))["compare"]["dense"]["results"]), means(jobs)
    tables = list(dict.fromkeys(key[0] for key in cells))
    print("# Error of the fits against loss of the model\n\n## Rank correlations\n")
    print("| Table | Layers | Size | Methods | Fitted: correlation | p | Without low rank: methods | correlation | p "
          "| With drawn maps: methods | correlation | p |")
    print("| --- | ---: | --- |" + " ---: |" * 9)
    for table in tables:
        for layers in sorted({key[1] for key in cells if key[0] == table}):
            own = {key[2]: value for key, value in cells.items() if key[:2] == (table, layers)}
            for size in (*SIZES, "all"):
                chosen = {name: value for name, value in own.items() if size_of(name) and size in ("all", size_of(name))}
                fitted = {name: value for name, value in chosen.items() if not any(word in name for word in DRAWN)}
                # Low rank has a small error and a poor model; a closed form and its training are one map.
                others = {name: value for name, value in fitted.items() if not is_low_rank(name)}
                columns = []
                for part in (fitted, others, chosen):
                    found, p = tested(*map(list, zip(*part.values()))) if len(part) > 3 else (None, None)
                    columns += [str(len(part)), "–" if found is None else f"{found:.2f}", "–" if p is None else f"{p:.4f}"]
                print(f"| {table} | {layers} | {size} | {' | '.join(columns)} |")
    print("\n## Loss without a fit\n")
    print("Nats per token above the dense model: the layers untouched, nothing in their place, maps that were drawn, and the")
    print("best and the worst fitted map of each size.\n")
    print("| Table | Layers | Row | Nats per token |")
    print("| --- | ---: | --- | ---: |")
    for table in tables:
        for layers in sorted({key[1] for key in cells if key[0] == table}):
            own = {key[2]: value[1] - dense for key, value in cells.items() if key[:2] == (table, layers)}
            shown = [name for name in own if any(word in name for word in (*CONTROLS, *DRAWN))]
            for size in SIZES:
                fitted = [name for name in own if size_of(name) == size and not any(word in name for word in DRAWN)]
                shown += [min(fitted, key=own.get), max(fitted, key=own.get)] if fitted else []
            for name in shown:
                print(f"| {table} | {layers} | {name} | {own[name]:+.4f} |")


main()
