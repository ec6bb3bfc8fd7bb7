"""all-MiniLM-L6-v2 made smaller: which maps keep most of a sentence encoder at a size.

    python tools/studies/minilm_sts.py all-MiniLM-L6-v2 sts-dev.tsv wikitext-2-valid.txt --output minilm-sts

All 36 linear layers of the encoder are replaced, and the pairs are asked before and after. The model is
sentence-transformers/all-MiniLM-L6-v2; the pairs are of the development set of STS-B; the calibration text is the
validation split of WikiText-2, a paragraph a document, since an encoder sees documents one by one. Needs Python's
standard library and `linwright` on the path, or `--program`.

The folder gets `table.md`, and for each row what the command printed; rows that are there are not made again.
"""

import argparse
import json
import pathlib
import subprocess

SHORT = ("low rank", "truncated SVD")
# Some families at the sizes that they have here; the last of each size is a control. Block-diagonal maps have no size
# near 0.8, butterflies need powers of two, circulants need squares. Left out to keep the study to minutes: Monarch and
# rotor networks, about 20 minutes each by `--dry-run`, and the latter have no size near 0.5; diagonal plus low rank at
# 0.8, about half an hour; and Kronecker, five days.
ROWS = [
    (SHORT[0], 0.8, ["compress", "--keep", "0.8"]),
    (SHORT[1], 0.8, ["laser", "--lname", "all", "--lnum=-1", "--keep", "0.8"]),
    ("random components", 0.8, ["laser", "--lname", "all", "--lnum=-1", "--keep", "0.8", "--intervention", "random-k"]),
    (SHORT[0], 0.5, ["compress", "--keep", "0.5"]),
    (SHORT[1], 0.5, ["laser", "--lname", "all", "--lnum=-1", "--keep", "0.5"]),
    ("diagonal plus low rank", 0.5, ["compress", "--method", "diagonal_low_rank", "--keep", "0.5"]),
    ("block-diagonal, trained", 0.5, ["compress", "--method", "block_hadamard", "--keep", "0.5"]),
    ("random components", 0.5, ["laser", "--lname", "all", "--lnum=-1", "--keep", "0.5", "--intervention", "random-k"]),
]


def paragraphs(path, out):
    with open(path, encoding="utf-8") as lines, open(out, "w", encoding="utf-8") as texts:
        for line in map(str.strip, lines):
            if len(line) > 200 and not line.startswith("="):
                texts.write(json.dumps({"text": line}) + "\n")


def printed(args, words, name):
    """What a command prints, run unless that is there."""
    path = args.output / f"{name}.json"
    if not path.exists():
        command = [args.program, words[0], args.model, *words[1:], "--data", f"stsb={args.pairs}", "--json", "-q"]
        command += ["--output", str(args.output / name), f"--threads={args.threads}"]
        if words[0] == "compress":
            command += ["--tasks", "stsb", "--calibration", str(args.output / "paragraphs.jsonl")]
        else:
            command += ["--task", "stsb"]
        path.write_text(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return json.loads(path.read_text())


def spearman(results):
    return next(metric["value"] for metric in results[0]["metrics"] if metric["name"] == "cosine_spearman")


def row(method, keep, said):
    counts = said.get("summary", said)
    difference = next(c for c in said["comparisons"] if c["metric"] == "cosine_spearman")
    low, high = difference["interval"]
    size = counts.get("weight_bytes") or said["saved"]["weight_bytes"]
    return {
        "Method": f"{method}, {keep}",
        "Parameters": f"{counts['targeted']:,}",
        "File, MB": f"{size / 1e6:.1f}",
        "Spearman": f"{spearman(said['results']):.4f}",
        "Difference, 95 %": f"{difference['difference']:.4f} ({low:.4f} to {high:.4f})",
    }


def table(title, rows):
    head = list(rows[-1])
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)] + [[row.get(name, "–") for name in head] for row in rows]
    return f"## {title}\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("pairs")
    parser.add_argument("text")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--program", default="linwright")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    paragraphs(args.text, args.output / "paragraphs.jsonl")
    made = []
    for method, keep, words in ROWS:
        name = f"{method.replace(',', '').replace(' ', '-')}-{round(100 * keep)}"
        made.append((method, keep, printed(args, words, name)))
        print(row(*made[-1]), flush=True)
    said = made[1][2]
    dense = {
        "Method": "dense (original)",
        "Parameters": f"{said['targeted_dense']:,}",
        "File, MB": f"{(pathlib.Path(args.model) / 'model.safetensors').stat().st_size / 1e6:.1f}",
        "Spearman": f"{spearman(said['dense']):.4f}",
    }
    about = (
        f"Written by tools/studies/minilm_sts.py. {said['dense'][0]['counts']['items']} pairs, protocol "
        f"{said['dense'][0]['protocol']}; sha256 of the model {said['provenance']['model_sha256']}, of the pairs "
        f"{said['dense'][0]['data_sha256']}; Linwright {said['provenance']['version']}, "
        f"{said['provenance']['device']}.\n"
    )
    short = [dense] + [row(*one) for one in made if one[0] in SHORT]
    tables = [about, table("In short", short), table("All", [dense] + [row(*one) for one in made])]
    (args.output / "table.md").write_text("\n".join(tables))


if __name__ == "__main__":
    main()
