"""Times the compression of gradients against PyTorch, in turns, and against the limits of the machine.

    cargo build --release -p linwright-attribute --example compression
    python tools/bench/attribution.py --threads 2 --record RECORD.csv

The gradient of one linear layer of `--width` features, for `--examples` examples of `--tokens`
tokens, is compressed to `--size` numbers, from inputs and gradients of outputs on. The Rust program
`compression` draws both and the maps, and writes them with its results; both sides use the same
maps, made before, and results are compared first. PyTorch's side, in f32:

- `logra`: two products with the dense maps divided by their roots, the product of the results for
  each example (the steps of the released code of GraSS, whose maps are drawn before, too);
- `factgrass`: columns by `index_select`, the product for each example, and signs with an
  `index_add_`. Two forms of the last step are timed, over a dimension of all examples and for one
  example at a time, and the faster one counts; `factgrass_indexed` picks columns as the released
  code does, `x[:, columns]`.

`blocks` is our FactGraSS with masks of aligned groups of 16 columns (`,block=16`), which are other
maps: it has no twin, and is compared with the `factgrass` of PyTorch.

Each round is one call of each side, in alternating order with a pause before each. Results are
medians, and the median of the ratios within a round. `limits` are the time that the machine would
need for the memory that is read (inputs and gradients once, for FactGraSS the lines of 64 bytes
that hold picked columns) and for the operations of the products at the speed of a large product,
whichever is longer, over the time that was taken.

With `--cpu`, times are CPU times of one thread, for a machine that others use: they still depend on
what others do to caches and memory.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

import record
from mlp_step import Other

LINE = 16


class Names(Other):
    """A program that answers names."""

    cpu = False

    def step(self, name):
        before = self.cpu_ms()
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        took = float(self.line())
        return self.cpu_ms() - before if self.cpu else took

    def cpu_ms(self):
        """CPU time of the main thread, which works alone if there is one."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e6


class Torch:
    """The same compressions in PyTorch."""

    def __init__(self, directory, examples):
        batch = load_file(directory / "batch.safetensors")
        shape = (examples, -1, batch["inputs"].shape[1])
        self.inputs, self.gradients = batch["inputs"].reshape(shape), batch["gradients"].reshape(shape)
        self.expected = batch
        logra = load_file(directory / "logra.safetensors")
        self.inp, self.out = logra["inp.0.matrix"], logra["out.0.matrix"]
        factgrass = load_file(directory / "factgrass.safetensors")
        self.rows, self.columns = (factgrass[f"{role}.0.idx"].long() for role in ("out", "inp"))
        self.targets, self.signs = factgrass["flat.0.idx"].long(), factgrass["flat.0.sign"].float()
        self.size = batch["factgrass"].shape[1]

    def logra(self):
        a = self.inputs.reshape(-1, self.inputs.shape[-1]) @ self.inp / self.inp.shape[1] ** 0.5
        g = self.gradients.reshape(-1, self.gradients.shape[-1]) @ self.out / self.out.shape[1] ** 0.5
        shape = (self.inputs.shape[0], self.inputs.shape[1], -1)
        return torch.einsum("bsi,bsj->bij", g.reshape(shape), a.reshape(shape)).flatten(1)

    def block(self):
        g = self.gradients.index_select(2, self.rows)
        a = self.inputs.index_select(2, self.columns)
        return torch.einsum("bsi,bsj->bij", g, a).flatten(1) * self.signs

    def factgrass_batch(self):
        block = self.block()
        return torch.zeros(len(block), self.size).index_add_(1, self.targets, block)

    def factgrass_each(self):
        block = self.block()
        y = torch.zeros(len(block), self.size)
        for row, of_row in zip(y, block):
            row.index_add_(0, self.targets, of_row)
        return y

    def factgrass_indexed(self):
        rows = [part.reshape(-1, part.shape[2])[:, columns] for part, columns
                in ((self.gradients, self.rows), (self.inputs, self.columns))]
        count = len(self.inputs)
        g, a = (part.reshape(count, self.inputs.shape[1], -1) for part in rows)
        block = torch.einsum("bsi,bsj->bij", g, a).flatten(1) * self.signs
        return torch.zeros(count, self.size).index_add_(1, self.targets, block)

    def check(self, name, form):
        found, expected = getattr(self, form)(), self.expected[name]
        error = ((found - expected).norm() / expected.norm()).item()
        if error > 1e-4:
            raise SystemExit(f"{form}: relative difference {error:.2g}")

    def step(self, form, clock=time.perf_counter):
        began = clock()
        getattr(self, form)()
        return 1e3 * (clock() - began)


def rounds(pairs, args):
    """Milliseconds of every name in each round."""
    times = {name: [] for name, _ in pairs}
    for index in range(args.rounds + args.warm):
        for name, step in pairs if index % 2 == 0 else pairs[::-1]:
            time.sleep(args.pause)
            took = step()
            if index >= args.warm:
                times[name].append(took)
    return times


def lines(indices, width):
    """Numbers of the lines that hold some columns, as a share of the row."""
    return len({index // LINE for index in indices.tolist()}) * LINE / width


def limits(times, reference, args):
    """The share of the limit of the machine that each compression reaches."""
    rows = args.examples * args.tokens
    number_ms = times["memory"] / (2 * rows * args.width)
    operation_ms = times["product"] / (2 * 1024**3)
    side, block = round(args.size**0.5), len(reference.rows) * len(reference.columns)
    shares = [lines(part, args.width) for part in (reference.rows, reference.columns)]
    memory = {"logra": times["memory"], "factgrass": number_ms * rows * args.width * sum(shares)}
    work = {"logra": 2 * rows * (2 * args.width * side + side**2), "factgrass": 2 * rows * block}
    found = {}
    for name in ("logra", "factgrass"):
        product = operation_ms * work[name]
        found[name] = {"memory": memory[name], "product": product,
                       "reached": max(memory[name], product) / times[name]}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/examples/compression")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--examples", type=int, default=8)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds before each call")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of time")
    parser.add_argument("--record", help="CSV file that takes the results")
    args = parser.parse_args()
    if args.cpu and args.threads != 1:
        parser.error("--cpu needs --threads 1")
    clock = time.thread_time if args.cpu else time.perf_counter
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as directory:
        sizes = (args.threads, args.width, args.tokens, args.examples, args.size)
        other = Names([args.program, directory, *map(str, sizes)])
        other.cpu = args.cpu
        reference = Torch(Path(directory), args.examples)
        forms = [("logra", "logra"), *(("factgrass", f"factgrass_{form}")
                                       for form in ("batch", "each", "indexed"))]
        for name, form in forms:
            reference.check(name, form)
        pairs = [(f"torch {form}", lambda form=form: reference.step(form, clock)) for _, form in forms]
        own = ("logra", "factgrass", "blocks", "gathers", "memory", "product")
        pairs += [(name, lambda name=name: other.step(name)) for name in own]
        times = rounds(pairs, args)
        other.end()
    report(times, reference, args)


def report(times, reference, args):
    medians = {name: statistics.median(of) for name, of in times.items()}
    forms = min(("torch factgrass_batch", "torch factgrass_each"), key=medians.get)
    pairs = {"logra": ("logra", "torch logra"), "factgrass": ("factgrass", forms),
             "factgrass, indexed": ("factgrass", "torch factgrass_indexed"),
             "blocks": ("blocks", forms)}
    ratios = {name: [a / b for a, b in zip(times[form], times[own])]
              for name, (own, form) in pairs.items()}
    shares = limits(medians, reference, args)
    setting = (f"{args.width} x {args.width} T={args.tokens} B={args.examples} k={args.size} "
               f"threads={args.threads}{' CPU time' if args.cpu else ''}")
    print(json.dumps({"setting": setting, "torch": torch.__version__, "limits": shares,
                      "milliseconds": {name: round(value, 3) for name, value in medians.items()},
                      "ratios": {n: round(statistics.median(r), 3) for n, r in ratios.items()},
                      "reference": forms}, indent=1))
    if args.record:
        add = lambda *row: record.append(args.record, "attribution", "one layer", *row)
        for name, of in times.items():
            add(name, setting, "time", "ms", of)
        for name, of in ratios.items():
            add(f"{name} against torch", setting, "ratio", "", of)
        for name, of in shares.items():
            add(f"{name} against the limit", setting, "ratio", "", [of["reached"]])


if __name__ == "__main__":
    main()
