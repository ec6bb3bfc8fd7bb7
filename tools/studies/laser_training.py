"""The tables about LASER on models that are trained short, from the run of its recipe.

    linwright run -r laser-training -o OUT
    python tools/studies/laser_training.py OUT > benchmarks/record/recipes/laser-training.md

Each intervention's best cell on a fifth of the questions is tested once on the others. p is McNemar's exact test on them,
two-sided, adjusted by Holm's method over all tests of the table. Needs the standard library alone.
"""

import json
import pathlib
import sys

from laser_finding import percent, size, value

STEPS = (655, 1309, 2619)
KINDS = {"top": "top components", "bottom": "bottom components", "drawn": "random components", "magnitude": "large entries"}


def of_accuracy(test):
    return next(own for own in test["comparisons"] if own["metric"] == "acc")


def accuracy(model):
    return value(next(result for result in model["results"] if result["task"] == "multiple_choice"), "acc")


def holm(values):
    """Adjusted p of several tests."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, highest = [0.0] * len(values), 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, values[index] * (len(values) - place)))
        found[index] = highest
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {}
    for steps in STEPS:
        for kind in KINDS:
            found[steps, kind] = json.loads((folder / f"{kind}-{steps}" / "result.json").read_text())["sweep"]
    adjusted = dict(zip(found, holm([of_accuracy(sweep["test"])["mcnemar_p"] for sweep in found.values()])))
    print("# LASER on a model that is trained short\n\n## Best cells\n")
    print("| model | Method | best cell of | validation, dense to best | test, dense to best | difference, 95 % | p, adjusted | test log loss |")
    print("| --- | --- | --- | --: | --: | --: | --: | --: |")
    for (steps, kind), sweep in found.items():
        best, test = sweep["cells"][sweep["best"]], sweep["test"]
        place, compared = best["place"], of_accuracy(test)
        low, high = (100 * bound for bound in compared["interval"])
        print(f"| {steps:,} steps | {KINDS[kind]} | {place['lname']}, layer {place['layer']}, {size(best)}"
              f" | {percent(value(sweep['dense'], 'acc'))} to {percent(value(best['score'], 'acc'))} %"
              f" | {percent(value(test['dense'], 'acc'))} to {percent(value(test['best'], 'acc'))} %"
              f" | {100 * compared['difference']:+.1f} ({low:+.1f} to {high:+.1f}) | {adjusted[steps, kind]:.3f}"
              f" | {value(test['dense'], 'log_loss'):.3f} to {value(test['best'], 'log_loss'):.3f} |")
    print("\n## Groups of facts\n")
    print("Accuracy on the test questions, dense and best cell.\n")
    print("| model | Method | frequent | medium | rare |")
    print("| --- | --- | --: | --: | --: |")
    for (steps, kind), sweep in found.items():
        both = [sweep["test"]["dense"], sweep["test"]["best"]]
        cells = [" to ".join(percent(value(result, "acc", group)) for result in both) for group in ("frequent", "medium", "rare")]
        print(f"| {steps:,} steps | {KINDS[kind]} | {' | '.join(f'{cell} %' for cell in cells)} |")
    print("\n## Weights in fewer bits\n")
    print("Accuracy on 200 questions.\n")
    print("| model | Form | Dense | In fewer bits | Difference, 95 % |")
    print("| --- | --- | --: | --: | --: |")
    for steps in STEPS:
        compare = json.loads((folder / f"bits-{steps}" / "result.json").read_text())["compare"]
        for cell in compare["cells"]:
            if cell["method"] in ("q8_0", "q4_0"):
                model = cell["found"]["model"]
                compared = next(own for own in model["comparisons"] if own["metric"] == "acc")
                low, high = (100 * bound for bound in compared["interval"])
                print(f"| {steps:,} steps | {cell['method']} | {percent(accuracy(compare['dense']))} %"
                      f" | {percent(accuracy(model))} % | {100 * compared['difference']:+.1f} ({low:+.1f} to {high:+.1f}) |")


main()
