"""Times a cache pass against the passes without a probe, and scores against reading the store.

    cargo build --release -p linwright-attribute --example passes
    python tools/bench/attribution_passes.py --threads 2 --record RECORD.csv

The Rust program `passes` makes all passes in one process, on the same threads; rounds alternate
their order. The language model has random weights. *Cache*: the time of a forward pass and a pass
back for gradients of inputs alone, with a probe that looks at nothing, divided by the time of the
same passes with compressed gradients of every linear layer. *Scores*: the time of reading all files
of the store, which are in the page cache, from the first to the last with one thread, divided by
the time of scoring all examples for one and for eight queries, checksums included.
"""

import argparse
import json
import statistics
import tempfile
import time

import record
from attribution import Names

NAMES = ("plain", "cache", "read", "scores", "scores_of_one")
RATIOS = {"cache": "plain", "scores": "read", "scores_of_one": "read"}


class Passes(Names):
    """The program, whose first line tells the bytes of its store."""

    def line(self):
        line = super().line()
        if not line.startswith("ready"):
            return line
        self.bytes = int(line.split()[1])
        return "ready"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/examples/passes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, help="of the MLPs [default: 8/3 of --hidden]")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--cpu", action="store_true", help="CPU time of one thread instead of time")
    parser.add_argument("--record", help="CSV file that takes the results")
    args = parser.parse_args()
    if args.cpu and args.threads != 1:
        parser.error("--cpu needs --threads 1")
    wide = args.intermediate or -(-8 * args.hidden // 3 // 16) * 16
    sizes = (args.threads, args.hidden, args.layers, args.tokens, args.examples, args.size, wide,
             args.rows)
    times = {name: [] for name in args.only}
    with tempfile.TemporaryDirectory() as directory:
        program = Passes([args.program, directory, *map(str, sizes)])
        program.cpu = args.cpu
        for index in range(args.rounds + args.warm):
            for name in args.only if index % 2 == 0 else args.only[::-1]:
                time.sleep(0.05)
                took = program.step(name)
                if index >= args.warm:
                    times[name].append(took)
        program.end()
    setting = (f"hidden {args.hidden} MLP {wide} x {args.layers} T={args.tokens} B={args.examples} "
               f"factgrass:{args.size} threads={args.threads}{' CPU time' if args.cpu else ''}")
    ratios = {name: [a / b for a, b in zip(times[base], times[name])]
              for name, base in RATIOS.items() if name in times and base in times}
    print(json.dumps({
        "setting": setting, "store_bytes": program.bytes,
        "milliseconds": {name: round(statistics.median(of), 3) for name, of in times.items()},
        "ratios": {name: round(statistics.median(of), 4) for name, of in ratios.items()},
    }, indent=1))
    if args.record:
        add = lambda *row: record.append(args.record, "attribution passes", "random", *row)
        for name, of in times.items():
            add(name, setting, "time", "ms", of)
        for name, of in ratios.items():
            add(f"{name} against {RATIOS[name]}", setting, "ratio", "", of)


if __name__ == "__main__":
    main()
