"""Time of a feature-space decomposition of all linear layers, compared with SFSD's released steps.

    python tools/bench/feature.py MODEL TEXT --work WORK --record RECORD.csv

The reference takes the steps of SFSD's code in PyTorch, in its order: in one forward pass of one
batch, each linear layer computes all its outputs, centres them, computes their covariance (out x out)
in f32, its eigenvectors with `torch.linalg.eigh`, both factors, and passes on what the factors give.
The head is left out, which the code decomposes although no result reads it, and so are files.
Linwright's time is that of the stages that capture and fit; both sides read the same tokens.
"""

import argparse
import json
import pathlib
import shutil
import sys
import time

import child
import record


def reference(model_dir, text, tokens, window, keep, threads):
    """Seconds of the released steps, and the share of parameters kept."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    ids = tokenizer(pathlib.Path(text).read_text())["input_ids"][:tokens]
    batch = torch.tensor(ids[: len(ids) // window * window]).view(-1, window)
    kept = []

    class Decomposed(torch.nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.weight = linear.weight

        def forward(self, x):
            weight = self.weight
            out, inp = weight.shape
            y = (x @ weight.T).view(-1, out)
            mean = y.mean(0)
            y -= mean
            covariance = y.T @ y / (len(y) - 1)
            del y
            _, vectors = torch.linalg.eigh(covariance)
            rank = int(out * inp / (out + inp) * keep)
            vectors = vectors[:, -rank:].contiguous()
            first = vectors.T @ weight
            bias = mean - vectors @ (vectors.T @ mean)
            kept.append((rank * (out + inp), out * inp))
            return torch.nn.functional.linear(x @ first.T, vectors, bias)

    for module in model.model.modules():
        for name, child_module in list(module.named_children()):
            if isinstance(child_module, torch.nn.Linear):
                setattr(module, name, Decomposed(child_module))
    began = time.time()
    model.model(batch, use_cache=False)
    seconds = time.time() - began
    return seconds, sum(k for k, _ in kept) / sum(n for _, n in kept), batch.numel()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--work", type=pathlib.Path, help="directory for results")
    parser.add_argument("--record")
    parser.add_argument("--method", default="feature")
    parser.add_argument("--keep", type=float, default=0.5)
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--reference", action="store_true", help="run the reference alone")
    args = parser.parse_args()
    if args.reference:
        found = reference(args.model, args.text, args.tokens, args.window, args.keep, args.threads)
        print(json.dumps(dict(zip(("seconds", "keep", "tokens"), found))))
        return
    args.work.mkdir(parents=True, exist_ok=True)
    output = args.work / "decomposed"
    ours = child.run_json([
        args.linwright, "compress", args.model, "--method", args.method, "--keep", args.keep,
        "--calibration", f"{args.text}:num_tokens={args.tokens},seq_len={args.window}",
        "--evaluation", "bos=never", "--heal", "none", "--output", output, "--force",
        "--threads", args.threads, "--json", "--quiet"])
    shutil.rmtree(output)
    seconds = sum(stage["seconds"] for stage in ours.result["stages"]
                  if any(word in stage["stage"] for word in ("capturing", "fitting")))
    theirs = child.run_json([
        sys.executable, __file__, args.model, args.text, "--reference", "--keep", args.keep,
        "--tokens", args.tokens, "--window", args.window, "--threads", args.threads])
    for program, value, peak in (("linwright", seconds, ours.peak_bytes),
                                 ("SFSD's steps in PyTorch", theirs.result["seconds"], theirs.peak_bytes)):
        record.append(args.record, "feature", args.model, program, args.method,
                      "statistics and decomposition", "s", [value])
        record.append(args.record, "feature", args.model, program, args.method, "peak memory", "MB",
                      [peak / 1e6])
    print(f"{seconds:.1f} s against {theirs.result['seconds']:.1f} s: "
          f"{theirs.result['seconds'] / seconds:.2f} times as fast")


if __name__ == "__main__":
    main()
