"""Times LASER against its published code and against torch's singular value decomposition.

    python tools/bench/laser.py WORK --laser laser/src --fever fever.jsonl --vocabulary VOCAB.json MERGES.txt \\
        --record RECORD.csv

`--laser` is the folder `src` of a copy of github.com/pratyushasharma/laser. Three comparisons, in turns,
with the same threads:

matrix   3072 x 768 at nine rates: the code's `do_low_rank` for each against one decomposition and nine cuts.
svd      4096 x 11008 in f32: torch.linalg.svd against all singular components, their seconds and how far each
         is from orthogonal and from the matrix.
grid     A random GPT-J of the size of GPT-2 small: fc_in and fc_out of layers 11 to 1 at nine rates, judged by
         64 claims of FEVER. The published loop copies the model for each configuration, cuts it, and asks one
         claim at a time. Of its 198 configurations 10 are timed, spread over the grid, and the rest
         extrapolated by their mean. Log-likelihoods of the model as it is must agree to 1e-4. No cell is
         tested further, as in the published loop. Recorded beside: the operations of the products that the
         sweep cannot leave out, and their seconds at the speed of torch's products of these shapes.
"""

import argparse
import contextlib
import copy
import io
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

import child
import record

RATES = [9.95, 9.9, 9.5, 9, 8, 6, 4, 2, 1]
TARGETS = {"matrix": 8.0, "svd": 4.0, "grid": 20.0}
LAYERS = range(11, 0, -1)
CLAIMS = 64


def quietly(call):
    with contextlib.redirect_stdout(io.StringIO()):
        return call()


def seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ours_decomposed(args, rows, cols, repeats):
    return child.run_json([args.components, rows, cols, repeats],
                          {"RAYON_NUM_THREADS": str(args.threads)}).result


def matrix(args):
    import torch
    from laser.matrix_utils import do_low_rank

    weight = torch.randn(3072, 768)

    def published():
        for rate in RATES:
            do_low_rank(weight, (10 - rate) * 0.1, niter=2)

    published()
    pairs = [(ours_decomposed(args, 3072, 768, 3)["decompose_and_cut"][-1], seconds(published))
             for _ in range(args.rounds)]
    return line(args, "matrix", "3072 x 768, nine rates", pairs)


def svd(args):
    import torch

    weight = torch.randn(args.svd[0], args.svd[1])
    title = f"all components of {args.svd[0]} x {args.svd[1]}"
    pairs, ours, theirs = [], [], []
    for _ in range(args.rounds):
        ours.append(ours_decomposed(args, args.svd[0], args.svd[1], 1))
        took = seconds(lambda: theirs.append(torch.linalg.svd(weight, full_matrices=False)))
        pairs.append((ours[-1]["decompose"][-1], took))
        theirs[-1] = departures(weight, *theirs[-1])
    for quantity in ("left", "right", "whole"):
        for subject, found in (("linwright", ours), ("published", theirs)):
            values = [one[quantity] for one in found]
            record.append(args.record, "laser", "svd", subject, title, f"departure, {quantity}", "1", values)
    return line(args, "svd", title, pairs)


def departures(weight, u, s, v):
    """As the example `components` has them: root mean squares of a row of Uᵀ U - 1 and of V Vᵀ - 1, and
    the share of the matrix that is missed."""
    import torch

    u, s, v, weight = u.double(), s.double(), v.double(), weight.double()

    def from_one(inner):
        return float((inner - torch.eye(len(inner))).square().sum(1).mean().sqrt())

    missed = (u * s) @ v - weight
    return {"left": from_one(u.T @ u), "right": from_one(v @ v.T), "whole": float(missed.norm() / weight.norm())}


def make_model(args):
    import torch
    from transformers import GPTJConfig, GPTJForCausalLM

    path = args.work / "random-gptj"
    if not path.exists():
        torch.manual_seed(1)
        config = GPTJConfig(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12,
                            rotary_dim=64, bos_token_id=50256, eos_token_id=50256)
        GPTJForCausalLM(config).save_pretrained(path)
        vocabulary, merges = args.vocabulary
        shutil.copy(vocabulary, path / "vocab.json")
        shutil.copy(merges, path / "merges.txt")
        (path / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024,
             "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}) + "\n")
    return path


def prompts(rows):
    for row in rows:
        claim = row["claim"].strip()
        end = "" if claim.endswith((".", "?")) else "."
        yield f"Consider the following claim: {claim}{end} Is this claim true or false. The claim is", row["label"]


def asked(model, tokenizer, rows):
    """Accuracy and log-likelihoods of the right words, by what the published script computes for each claim."""
    import torch

    words = {"SUPPORTS": tokenizer(" true").input_ids[0], "REFUTES": tokenizer(" false").input_ids[0]}
    right, found = 0, []
    for prompt, label in prompts(rows):
        inputs = tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            logits = model(inputs.input_ids).logits[0]
            log_prob = torch.nn.functional.log_softmax(logits, dim=1)
            last = log_prob[-1]
            both = {name: last[token].item() for name, token in words.items()}
            ordered, indices = torch.sort(last, descending=True)
            tokenizer.batch_decode(indices[:10])
            torch.gather(log_prob[:-1], index=inputs.input_ids[0, 1:].unsqueeze(1), dim=1).sum().item()
        right += both[label] > min(both.values())
        found.append(both[label])
    return right / len(rows), found


def published_seconds(args, path, rows):
    """Seconds of each configuration that was timed, and what the model as it is says."""
    from laser.LaserWrapper import LaserWrapper
    from transformers import AutoTokenizer, GPTJForCausalLM

    class Quiet:
        def log(self, _text):
            pass

    tokenizer = AutoTokenizer.from_pretrained(path)
    model = GPTJForCausalLM.from_pretrained(path).eval()
    dense = asked(model, tokenizer, rows)
    grid = [(name, layer, rate) for layer in LAYERS for name in ("fc_in", "fc_out") for rate in RATES]
    chosen = grid[::len(grid) // args.configurations][:args.configurations]

    def one(name, layer, rate):
        edited = LaserWrapper.get_edited_model(
            model=copy.deepcopy(model), lname=name, lnum=layer, rate=rate,
            intervention="rank-reduction", logger=Quiet(), in_place=True)
        asked(edited, tokenizer, rows)

    times = [seconds(lambda: quietly(lambda: one(*of))) for of in chosen]
    return times, len(grid), dense


def ours_swept(args, path, name):
    output = args.work / "sweep"
    shutil.rmtree(output, ignore_errors=True)
    cost = child.run_json([
        args.linwright, "sweep", path, "--roles", "fc_in,fc_out", "--layers", f"{LAYERS[0]}-{LAYERS[-1]}",
        "--size", "rate=" + ",".join(map(str, RATES)), "--task", "fever", "--data", f"fever={name}",
        "--no-split", "--evaluation", "bos=never", "--no-cache", "--threads", args.threads, "-o", output, "--json",
        "--quiet"])
    return cost


def least_seconds(args, path, rows):
    """Operations of the products of all cells, and their seconds at the speed of torch.

    Counted are the common start of the claims once, layers after each cut, of the last MLP the scored rows
    alone, of each cut all ranks as the largest, and the head.
    """
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = [tokenizer(prompt).input_ids for prompt, _ in prompts(rows)]
    common = os.path.commonprefix(ids)
    tokens = sum(map(len, ids)) - len(common) * (len(ids) - 1)
    width, layers, vocabulary, cells = 768, 12, 50257, len(RATES)
    square, largest = width * width, max(int(width * ((10 - rate) * 0.1)) for rate in RATES)
    products = 0
    for layer in LAYERS:
        own = len(ids) if layer == layers - 1 else tokens
        after = sum(tokens * 4 * square + (len(ids) if later == layers - 1 else tokens) * 8 * square
                    for later in range(layer + 1, layers))
        head = len(ids) * width * vocabulary
        products += 2 * (own * (largest * 5 * width + cells * 4 * square) + cells * (after + head))
    x, weight = torch.randn(tokens, width), torch.randn(4 * width, width)
    took = statistics.median(seconds(lambda: torch.nn.functional.linear(x, weight)) for _ in range(30))
    speed = 2 * tokens * width * 4 * width / took
    record.append(args.record, "laser", "grid", "torch", "products of the sweep's shapes", "speed",
                  "GFLOP/s", [speed / 1e9])
    record.append(args.record, "laser", "grid", "the products of the sweep", "operations", "count", "TFLOP",
                  [2 * products / 1e12])
    record.append(args.record, "laser", "grid", "the products of the sweep", "at torch's speed", "time", "s",
                  [2 * products / speed])


def grid(args):
    path = make_model(args)
    rows = [json.loads(text) for text in args.fever.read_text().splitlines()]
    seen, unique = set(), []
    for row in rows:
        if row["claim"] not in seen and row["label"] in ("SUPPORTS", "REFUTES"):
            seen.add(row["claim"])
            unique.append(row)
    if len(unique) < CLAIMS:
        sys.exit(f"{args.fever}: {len(unique)} claims, {CLAIMS} are needed")
    unique = unique[:CLAIMS]
    name = args.work / "fever.jsonl"
    name.write_text("".join(json.dumps(row) + "\n" for row in unique))
    own = ours_swept(args, path, name)
    theirs, count, (accuracy, log_likelihoods) = published_seconds(args, path, unique)
    metrics = {metric["name"]: metric["value"] for metric in own.result["sweep"]["dense"]["metrics"]}
    loss = -statistics.fmean(log_likelihoods)
    if metrics["acc"] != accuracy or abs(metrics["log_loss"] - loss) > 1e-4:
        sys.exit(f"dense: {metrics['acc']} and {metrics['log_loss']}, there {accuracy} and {loss}")
    if len(own.result["sweep"]["cells"]) != count:
        sys.exit(f"{len(own.result['sweep']['cells'])} cells, expected {count}")
    whole = statistics.fmean(theirs) * count
    rounds = [own.result["seconds"]] + [ours_swept(args, path, name).result["seconds"]
                                        for _ in range(args.rounds - 1)]
    pairs = [(mine, whole) for mine in rounds]
    least_seconds(args, path, unique)
    title = f"{count} configurations, {CLAIMS} claims ({len(theirs)} timed, extrapolated)"
    return line(args, "grid", title, pairs)


def line(args, name, title, pairs):
    ours, theirs = zip(*pairs, strict=True)
    ratios = [b / a for a, b in pairs]
    record.append(args.record, "laser", name, "linwright", title, "time", "s", ours)
    record.append(args.record, "laser", name, "published", title, "time", "s", theirs)
    record.append(args.record, "laser", name, "published / linwright", title, "seconds ratio", "1", ratios)
    return (f"| {title} | {statistics.median(ours):.3g} s | {statistics.median(theirs):.3g} s | "
            f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) | {TARGETS[name]:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=pathlib.Path, help="directory for model and sweeps")
    parser.add_argument("--laser", type=pathlib.Path, required=True, help="folder src of the published code")
    parser.add_argument("--fever", type=pathlib.Path, required=True)
    parser.add_argument("--vocabulary", type=pathlib.Path, nargs=2, required=True,
                        metavar=("VOCAB", "MERGES"))
    parser.add_argument("--record", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--configurations", type=int, default=10)
    parser.add_argument("--svd", type=int, nargs=2, default=[4096, 11008])
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--components", default="target/release/examples/components")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    sys.path.insert(0, str(args.laser))
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    parts = {"matrix": matrix, "svd": svd, "grid": grid}
    lines = [part(args) for name, part in parts.items() if args.only in (None, name)]
    print("\n| what | Linwright | published or torch | times (range) | at least |")
    print("| --- | --: | --: | --: | --: |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
