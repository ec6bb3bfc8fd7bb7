"""Times training steps of an MLP in PyTorch, alone or in turns with another program, as JSON.

    python tools/bench/mlp_step.py --threads 2
    python tools/bench/mlp_step.py --threads 2 --rounds 21 -- COMMAND ARGUMENTS...

A step is forward, mean cross entropy, backward without the gradient of the input, and fused Adam,
in f32; zeroing gradients is part of it. The MLP has `--layers` linear layers of `--width` features
with biases, each followed by ReLU, and a head of `--classes`. Input and targets are drawn once.

The command is the other side. It builds the same network, takes as many steps as it needs to be
warm, writes `ready`, and then, for every line `go` on its standard input, takes one step and writes
its milliseconds as one line. It ends when its input ends. `--threads` does not reach it: its own
options must ask for as many.

Each round is one step of each side; which one is first alternates, and a pause before each step
lets the threads of the other side fall asleep. Results are medians, and the median of the ratios
within a round, PyTorch's time divided by that of the other side.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional

RATE = 1e-4


class Torch:
    """Steps of PyTorch in this process."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        layers = [part for _ in range(args.layers)
                  for part in (nn.Linear(args.width, args.width), nn.ReLU())]
        self.model = nn.Sequential(*layers, nn.Linear(args.width, args.classes))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, fused=True)
        self.x = torch.randn(args.batch, args.width)
        self.targets = torch.randint(args.classes, (args.batch,))
        for _ in range(args.warm):
            self.step()

    def step(self):
        """Milliseconds of one step."""
        began = time.perf_counter()
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(self.x), self.targets).backward()
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - began)


class Other:
    """Steps of a program that answers lines."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        ready = self.line()
        if ready != "ready":
            raise SystemExit(f"{command[0]}: expected the line \"ready\", found \"{ready}\"")

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended with code {self.process.wait()}")
        return line.strip()

    def step(self):
        """Milliseconds of one step, as the program says."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args[0]} ended with code {self.process.returncode}")


def rounds(sides, args):
    """Milliseconds of each side in each round."""
    times = {name: [] for name in sides}
    for index in range(args.rounds):
        names = list(sides) if index % 2 == 0 else list(reversed(sides))
        for name in names:
            time.sleep(args.pause)
            times[name].append(sides[name].step())
    return times


def summary(times):
    """Median and all times of one side, in milliseconds."""
    return {"median": round(statistics.median(times), 3), "rounds": [round(t, 3) for t in times]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds before each step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("command", nargs="*", help="program that is timed in turns")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    other = Other(args.command) if args.command else None
    sides = {"torch": Torch(args)} | ({"other": other} if other else {})
    times = rounds(sides, args)
    if other:
        other.end()
    names = ("threads", "width", "layers", "classes", "batch", "warm")
    found = {"torch": torch.__version__, **{name: getattr(args, name) for name in names},
             "milliseconds": {name: summary(of_side) for name, of_side in times.items()}}
    if other:
        ratios = [a / b for a, b in zip(times["torch"], times["other"])]
        found["ratio"] = {"median": round(statistics.median(ratios), 4),
                          "rounds": [round(ratio, 4) for ratio in ratios]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
