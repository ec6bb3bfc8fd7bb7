"""The tables of the finding about LASER on the built-in model, from the sweeps of its recipe.

    linwright run -r laser-pocket-finding -o OUT
    python tools/studies/laser_finding.py OUT > benchmarks/record/recipes/laser-pocket-finding.md

Needs the standard library alone.
"""

import json
import pathlib
import sys

RUNS = {
    "rank-reduction": "top components",
    "vendi": "rows by Vendi score",
    "vendi-with-quality": "rows by quality-weighted Vendi score",
    "bottom-components": "bottom components",
    "drawn-components": "random components",
    "magnitude": "large entries",
}


def value(result, name, group=None):
    if group is not None:
        result = next(own for own in result["groups"] if own["group"] == group)
    return next(metric["value"] for metric in result["metrics"] if metric["name"] == name)


def size(cell):
    kept = cell["kept"][0]
    return f"{kept['rank']:,}" if kept.get("rank") else f"{100 * kept['keep']:.0f} %"


def percent(number):
    return f"{100 * number:.1f}"


def signed(number):
    text = f"{100 * number:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def main():
    folder = pathlib.Path(sys.argv[1])
    sweeps = {name: json.loads((folder / name / "result.json").read_text())["sweep"] for name in RUNS}
    print("# LASER on the built-in model\n\n## All questions\n")
    print("| Method | best cell | validation, dense to best | test, dense to best | test difference, 95 % | test log loss |")
    print("| --- | --- | --: | --: | --: | --: |")
    for name, kept in RUNS.items():
        sweep = sweeps[name]
        best, test = sweep["cells"][sweep["best"]], sweep["test"]
        place, compared = best["place"], test["comparisons"][0]
        low, high = compared["interval"]
        print(f"| {kept} | {place['lname']}, layer {place['layer']}, {size(best)}"
              f" | {percent(value(sweep['dense'], 'acc'))} to {percent(value(best['score'], 'acc'))} %"
              f" | {percent(value(test['dense'], 'acc'))} to {percent(value(test['best'], 'acc'))} %"
              f" | {signed(compared['difference'])} ({signed(low)} to {signed(high)})"
              f" | {value(test['dense'], 'log_loss'):.3f} to {value(test['best'], 'log_loss'):.3f} |")
    print("\n## Rare facts\n")
    print("| Method | validation, dense | validation, best | test, dense | test, best |")
    print("| --- | --: | --: | --: | --: |")
    for name, kept in RUNS.items():
        sweep = sweeps[name]
        best, test = sweep["cells"][sweep["best"]]["score"], sweep["test"]
        numbers = [value(result, "acc", "rare") for result in (sweep["dense"], best, test["dense"], test["best"])]
        print(f"| {kept} | " + " | ".join(f"{percent(number)} %" for number in numbers) + " |")
    print("\n## Cells\n")
    sweep = sweeps["rank-reduction"]
    dense = value(sweep["dense"], "acc")
    at_least = sum(value(cell["score"], "acc") >= dense for cell in sweep["cells"])
    print(f"{at_least} of {len(sweep['cells'])} rank-reduced cells answer at least as many validation questions as the dense model.")


if __name__ == "__main__":
    main()
