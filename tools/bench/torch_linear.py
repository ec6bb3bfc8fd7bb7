"""Milliseconds of linear layers and small decompositions in PyTorch, as JSON.

    python tools/bench/torch_linear.py --threads 2 --forward 4096:2048,8192 --linalg 96 \
        --training 256:512,2048 --algebra 256:512

ROWS:FEATURES,... names square layers. Everything runs on the CPU; each figure is the median of as
many calls as fill half a second, at least three, after two that are not counted.

The rotor layer of `--algebra` stands for that of the original code of arXiv 2507.11688, which uses
an algebra package: bivectors split by power iteration (at most 20, warm, then through the graph),
exponentials of the simple parts multiplied by products with a sparse Cayley table, the matrix of
the map made from two such products, and rows multiplied by it. What a package does beside that,
such as checks and conversions, is left out, so that the figure is on the original's side.
"""

import argparse
import json
import statistics
import time

import torch
from torch.nn import functional

LEAST_SECONDS = 0.5
LEAST_CALLS = 3
RATE = 1e-4


def milliseconds(call):
    """Median of several calls."""
    call()
    call()
    times = []
    began = time.perf_counter()
    while len(times) < LEAST_CALLS or time.perf_counter() - began < LEAST_SECONDS:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def layer(features, rows, dtype=torch.float32):
    linear = torch.nn.Linear(features, features, bias=False, dtype=dtype)
    return linear, torch.randn(rows, features, dtype=dtype)


def forward(features, rows, dtype):
    linear, x = layer(features, rows, dtype)
    with torch.no_grad():
        return milliseconds(lambda: functional.linear(x, linear.weight))


def forward_backward(features, rows):
    """With the gradient of the input, as inside a network."""
    linear, x = layer(features, rows)
    x.requires_grad_()
    dy = torch.randn(rows, features)

    def call():
        linear.weight.grad = x.grad = None
        functional.linear(x, linear.weight).backward(dy)

    return milliseconds(call)


def training(module, features, rows):
    """Forward, mean squared error, backward, Adam; the input is data."""
    x, target = torch.randn(rows, features), torch.randn(rows, features)
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE)

    def call():
        optimizer.zero_grad()
        functional.mse_loss(module(x), target).backward()
        optimizer.step()

    return milliseconds(call)


def linalg(n):
    found = {}
    for dtype, name in ((torch.float32, "f32"), (torch.float64, "f64")):
        # Well conditioned, so that no path through the decomposition is a special one.
        matrix = torch.eye(n, dtype=dtype) + torch.randn(n, n, dtype=dtype) / (4 * n ** 0.5)
        found[f"inv {name} {n}"] = milliseconds(lambda m=matrix: torch.linalg.inv(m))
        found[f"slogdet {name} {n}"] = milliseconds(lambda m=matrix: torch.linalg.slogdet(m))
    return found


class CayleyRotor(torch.nn.Module):
    """`y = r x reverse(s)` by a dense matrix from products with a sparse Cayley table."""

    def __init__(self, generators):
        super().__init__()
        self.n, self.d = generators, 1 << generators
        pairs = [(i, j) for i in range(self.n) for j in range(i + 1, self.n)]
        self.pairs = torch.tensor(pairs).T
        self.blades = torch.tensor([1 << i | 1 << j for i, j in pairs])
        self.bivectors = torch.nn.Parameter(torch.randn(2, len(pairs)))
        self.left = self.table(from_right=False)
        self.right = self.table(from_right=True)
        self.reversal = self.reversal_signs()
        self.starts = [[torch.randn(self.n) for _ in range(self.n // 2)] for _ in range(2)]

    def table(self, from_right):
        """Sparse (d d, d): times r the matrix of `x -> r x`, or of `x -> x r`."""
        a = torch.arange(self.d).repeat_interleave(self.d)
        b = torch.arange(self.d).repeat(self.d)
        swaps = torch.zeros_like(a)
        for k in range(1, self.n):
            common = (a >> k) & b
            for bit in range(self.n):
                swaps += (common >> bit) & 1
        signs = 1.0 - 2.0 * (swaps % 2)
        out = a ^ b
        row, column = (out * self.d + a, b) if from_right else (out * self.d + b, a)
        size = (self.d * self.d, self.d)
        return torch.sparse_coo_tensor(torch.stack((row, column)), signs, size,
                                       check_invariants=False).coalesce()

    def reversal_signs(self):
        blades = torch.arange(self.d)
        grade = sum((blades >> bit) & 1 for bit in range(self.n))
        return 1.0 - 2.0 * ((grade * (grade - 1) // 2) % 2)

    def matrix(self, table, multivector):
        return torch.sparse.mm(table, multivector[:, None]).view(self.d, self.d)

    def skew(self, bivector):
        i, j = self.pairs
        upper = torch.zeros(self.n, self.n).index_put((i, j), bivector)
        return upper - upper.T

    def iterate(self, skew, start):
        v = start
        for _ in range(20):
            before, v = v, functional.normalize(skew @ (skew @ v), dim=0)
            if torch.linalg.vector_norm(v + before) < 1e-5:
                break
        return v

    def simple_parts(self, bivector, starts):
        parts = []
        rest = bivector
        i, j = self.pairs
        for place in range(self.n // 2 - 1):
            skew = self.skew(rest)
            with torch.no_grad():
                starts[place] = self.iterate(skew, starts[place])
            v = self.iterate(skew, starts[place])
            w = -(skew @ v)
            part = v[i] * w[j] - v[j] * w[i]
            parts.append(part)
            rest = rest - part
        return [*parts, rest]

    def rotor(self, bivector, starts):
        one = torch.zeros(self.d)
        one[0] = 1.0
        rotor = one
        for part in self.simple_parts(bivector, starts):
            angle = torch.linalg.vector_norm(part)
            sine = torch.sinc(angle / torch.pi) * part
            factor = torch.zeros(self.d).index_put((self.blades,), sine)
            rotor = self.matrix(self.left, rotor) @ (factor + torch.cos(angle) * one)
        return rotor

    def forward(self, x):
        r = self.rotor(self.bivectors[0], self.starts[0])
        s = self.rotor(self.bivectors[1], self.starts[1])
        matrix = self.matrix(self.left, r) @ self.matrix(self.right, self.reversal * s)
        return x @ matrix.T


def check(rotor):
    """Stops unless the map of the layer is orthogonal."""
    with torch.no_grad():
        matrix = rotor(torch.eye(rotor.d))
        off = (matrix @ matrix.T - torch.eye(rotor.d)).abs().max().item()
    # Twenty iterations leave parts that are not quite simple, so that the product is not quite a
    # rotor.
    if off > 0.2:
        raise SystemExit(f"the rotor layer is off an orthogonal map by {off}")


def sizes(text):
    rows, _, features = text.partition(":")
    return [(int(d), int(rows)) for d in features.split(",")] if features else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, required=True)
    for kind in ("--forward", "--forward-bf16", "--forward-backward", "--training", "--algebra"):
        parser.add_argument(kind, type=sizes, action="extend", default=[],
                            metavar="ROWS:FEATURES,...")
    parser.add_argument("--linalg", type=int, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    found = {}
    for features, rows in args.forward:
        found[f"forward f32 {features}"] = forward(features, rows, torch.float32)
    for features, rows in args.forward_bf16:
        found[f"forward bf16 {features}"] = forward(features, rows, torch.bfloat16)
    for features, rows in args.forward_backward:
        found[f"forward and backward f32 {features}"] = forward_backward(features, rows)
    for features, rows in args.training:
        linear, _ = layer(features, rows)
        found[f"training f32 {features}"] = training(linear, features, rows)
    for n in args.linalg:
        found |= linalg(n)
    for features, rows in args.algebra:
        rotor = CayleyRotor(features.bit_length() - 1)
        check(rotor)
        found[f"algebra training f32 {features}"] = training(rotor, features, rows)
    print(json.dumps({"torch": torch.__version__, "milliseconds": found}))


if __name__ == "__main__":
    main()
