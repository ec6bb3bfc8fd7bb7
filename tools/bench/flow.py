"""Times training steps of a normalizing flow in PyTorch, alone or in turns with Linwright, as JSON.

    python tools/bench/flow.py --threads 2
    python tools/bench/flow.py --threads 2 --rounds 21 -- target/release/examples/flow_step
    python tools/bench/flow.py --threads 2 --record RECORD.csv -- target/release/examples/flow_step

A step is dequantisation, the pass forward, the bits per dimension, the pass back and fused Adam, in
f32; zeroing gradients is part of it. The flow has `--levels` levels of `--steps` steps: ActNorm, a
circulant-diagonal mix of two diagonals (its matrix is formed once a step and multiplied, the
faster way for so few channels), and an affine coupling with three convolutions of `--hidden`
channels. The command is given sides, channels, levels, steps, hidden channels, batch and threads,
and answers lines as that of `mlp_step.py` does.

Each round is one step of each side; which one is first alternates. Results are medians, and the
median of the ratios within a round, PyTorch's time divided by that of the other side. `--record`
appends times and ratios to a record.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

import record
from mlp_step import Other, rounds, summary

RATE = 1e-4


class Step(nn.Module):
    """ActNorm, mix and coupling."""

    def __init__(self, channels, hidden):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.log_diagonals = nn.Parameter(torch.zeros(2, channels))
        self.log_moduli = nn.Parameter(torch.zeros(channels // 2 + 1))
        self.phases = nn.Parameter(0.1 * torch.randn(channels // 2 + 1))
        self.kept = channels // 2
        last = nn.Conv2d(hidden, 2 * (channels - self.kept), 3, padding=1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Conv2d(self.kept, hidden, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(hidden, hidden, 1), nn.ReLU(), last)
        index = torch.arange(channels)
        self.register_buffer("index", (index[:, None] - index[None, :]) % channels)
        weights = torch.full((channels // 2 + 1,), 2.0)
        weights[0] = 1.0
        if channels % 2 == 0:
            weights[-1] = 1.0
        self.register_buffer("weights", weights)
        real = torch.ones(channels // 2 + 1)
        real[0] = 0.0
        if channels % 2 == 0:
            real[-1] = 0.0
        self.register_buffer("real", real)

    def forward(self, x, log_det):
        places = x.shape[2] * x.shape[3]
        x = (x + self.bias[:, None, None]) * self.log_scale.exp()[:, None, None]
        spectrum = torch.polar(self.log_moduli.exp(), self.phases * self.real)
        column = torch.fft.irfft(spectrum, n=x.shape[1])
        left, right = self.log_diagonals.exp()
        matrix = left[:, None] * column[self.index] * right
        x = functional.conv2d(x, matrix[:, :, None, None])
        own = self.log_scale.sum() + self.log_diagonals.sum() + (self.weights * self.log_moduli).sum()
        a, b = x[:, :self.kept], x[:, self.kept:]
        shift, raw = self.net(a).chunk(2, 1)
        log_det = log_det + places * own + functional.logsigmoid(raw + 2).sum((1, 2, 3))
        return torch.cat([a, (b + shift) * torch.sigmoid(raw + 2)], 1), log_det


def log_normal(z, mean, log_std):
    return (-0.5 * ((z - mean) * (-log_std).exp()) ** 2 - log_std
            - 0.5 * math.log(2 * math.pi)).sum((1, 2, 3))


class Flow(nn.Module):
    """Levels with squeezes and splits, and a learnt prior."""

    def __init__(self, args):
        super().__init__()
        channels = args.channels
        self.levels, self.splits = nn.ModuleList(), nn.ModuleList()
        for level in range(args.levels):
            channels *= 4
            self.levels.append(nn.ModuleList(Step(channels, args.hidden) for _ in range(args.steps)))
            if level + 1 < args.levels:
                channels //= 2
                split = nn.Conv2d(channels, 2 * channels, 3, padding=1)
                nn.init.zeros_(split.weight)
                nn.init.zeros_(split.bias)
                self.splits.append(split)
        self.mean = nn.Parameter(torch.zeros(channels, 1, 1))
        self.log_std = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x):
        log_p = torch.zeros(x.shape[0])
        for level, steps in enumerate(self.levels):
            x = functional.pixel_unshuffle(x, 2)
            for step in steps:
                x, log_p = step(x, log_p)
            if level < len(self.splits):
                x, z = x.chunk(2, 1)
                log_p = log_p + log_normal(z, *self.splits[level](x).chunk(2, 1))
        return log_p + log_normal(x, self.mean, self.log_std)


class Torch:
    """Steps of PyTorch in this process."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.flow = Flow(args)
        self.optimizer = torch.optim.Adam(self.flow.parameters(), lr=RATE, fused=True)
        self.pixels = torch.randint(256, (args.batch, args.channels, args.side, args.side)).float()
        self.dimensions = args.channels * args.side * args.side
        for _ in range(args.warm):
            self.step()

    def step(self):
        """Milliseconds of one step."""
        began = time.perf_counter()
        self.optimizer.zero_grad()
        x = (self.pixels + torch.rand_like(self.pixels)) / 256 - 0.5
        (-self.flow(x).mean() / (self.dimensions * math.log(2))).backward()
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - began)


def write(args, times, ratios):
    """Appends the run to its record."""
    model = (f"flow {args.side} x {args.side} x {args.channels}, {args.levels} levels of "
             f"{args.steps} steps, {args.hidden} hidden, batch {args.batch}")
    setting = f"{args.threads} threads"
    for side, values in times.items():
        record.append(args.record, "flow", model, side, setting, "training step", "ms", values)
    record.append(args.record, "flow", model, "torch / linwright", setting, "training step", "x",
                  ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--side", type=int, default=8)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds before each step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", help="CSV file that the times are appended to")
    parser.add_argument("command", nargs="*", help="program that is timed in turns")
    args = parser.parse_args()
    if args.record and not args.command:
        parser.error("--record needs a program that is timed in turns")
    torch.set_num_threads(args.threads)
    sizes = [args.side, args.channels, args.levels, args.steps, args.hidden, args.batch, args.threads]
    other = Other(args.command + [str(size) for size in sizes]) if args.command else None
    sides = {"torch": Torch(args)} | ({"linwright": other} if other else {})
    times = rounds(sides, args)
    if other:
        other.end()
    names = ("threads", "side", "channels", "levels", "steps", "hidden", "batch")
    found = {"torch": torch.__version__, **{name: getattr(args, name) for name in names},
             "milliseconds": {name: summary(of_side) for name, of_side in times.items()}}
    if other:
        ratios = [a / b for a, b in zip(times["torch"], times["linwright"])]
        found["ratio"] = {"median": round(statistics.median(ratios), 4),
                          "rounds": [round(ratio, 4) for ratio in ratios]}
        if args.record:
            write(args, times, ratios)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
