"""The other side of model.py: times a causal language model in transformers, and prints JSON.

    python tools/bench/transformers_model.py MODEL --tokens 512 --new-tokens 64 --rounds 5
"""

import argparse
import json
import resource
import time

import torch
import transformers

STEP = 7919


def forward_milliseconds(model, tokens):
    began = time.perf_counter()
    model(tokens)
    return 1e3 * (time.perf_counter() - began)


def decode_speeds(model, tokens, count):
    """Tokens a second of `generate` after its first, and of all with the prompt."""
    class Clock(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.times = []

        def put(self, value):
            self.times.append(time.perf_counter())

        def end(self):
            pass

    clock = Clock()
    began = time.perf_counter()
    model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count,
                   min_new_tokens=count, do_sample=False, streamer=clock)
    # The first call shows the prompt, the second the first new token.
    first, last = clock.times[1], clock.times[-1]
    assert len(clock.times) == count + 1
    return (count - 1) / (last - first), count / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="auto")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    began = time.perf_counter()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, attn_implementation="sdpa", dtype=args.dtype).eval()
    load_seconds = time.perf_counter() - began
    vocab = model.config.vocab_size
    tokens = torch.tensor([[index * STEP % vocab for index in range(args.tokens)]])
    forward, speeds = [], []
    with torch.inference_mode():
        for index in range(args.rounds + 1 if args.rounds else 0):
            milliseconds = forward_milliseconds(model, tokens)
            if index:
                forward.append(milliseconds)
        for index in range(args.rounds + 1 if args.rounds and args.new_tokens > 1 else 0):
            both = decode_speeds(model, tokens, args.new_tokens)
            if index:
                speeds.append(both)
    print(json.dumps({
        "load_seconds": load_seconds,
        "peak_resident_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "timed": {
            "forward_rounds": forward,
            "decode_rounds": [after_first for after_first, _ in speeds],
            "generate_rounds": [all_tokens for _, all_tokens in speeds],
        },
    }))


if __name__ == "__main__":
    main()
