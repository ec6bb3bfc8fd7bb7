"""Perplexity of a text by transformers, in the protocol of `linwright eval`, as JSON.

    python tools/bench/transformers_perplexity.py MODEL TEXT --threads 2 --batch 8

The text is one document without a token that starts it, in windows side by side that are each
scored alone from their second token. f32, scaled-dot-product attention, on the CPU. The time is
that of tokenizing and scoring; loading is not in it, as in the figure that Linwright gives.
"""

import argparse
import json
import math
import time

import torch
import transformers
from tokenizers import Tokenizer


def nll_of(model, windows):
    """Sum in nats over the tokens of windows of one length, and their number."""
    tokens = torch.tensor(windows)
    logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1), reduction="none")
    return loss.double().sum().item(), loss.numel()


def evaluate(model, tokenizer, text, window, batch):
    """Negative log-likelihood in nats, and tokens counted."""
    tokens = tokenizer.encode(text, add_special_tokens=False).ids
    windows = [tokens[start:start + window] for start in range(0, len(tokens), window)]
    windows = [window for window in windows if len(window) > 1]
    full = [w for w in windows if len(w) == window]
    groups = [full[start:start + batch] for start in range(0, len(full), batch)]
    groups += [[w] for w in windows if len(w) < window]
    nll, counted = 0.0, 0
    for group in groups:
        part = nll_of(model, group)
        nll, counted = nll + part[0], counted + part[1]
    return nll, counted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8, help="windows at a time")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="sdpa").eval()
    tokenizer = Tokenizer.from_file(f"{args.model}/tokenizer.json")
    with open(args.text, encoding="utf-8") as file:
        text = file.read()
    with torch.inference_mode():
        # The first call of each kernel prepares it; that is loading too.
        nll_of(model, [list(range(min(32, model.config.vocab_size)))] * 2)
        began, began_cpu = time.monotonic(), time.process_time()
        nll, counted = evaluate(model, tokenizer, text, args.window, args.batch)
        seconds, cpu = time.monotonic() - began, time.process_time() - began_cpu
    print(json.dumps({"nll_per_token": nll / counted, "perplexity": math.exp(nll / counted),
                      "tokens_counted": counted, "seconds": seconds, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
