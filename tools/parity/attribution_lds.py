"""Compares linear datamodelling scores with those of the reference's formulas.

    linwright run -r recipes/attribution-mnist.yaml -o RUN
    python tools/parity/attribution_lds.py --net RUN/mlp --store RUN/margins --lds RUN/attribute-lds-1 \\
        --images t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz

Everything but the trained weights, the maps of the compressor and the outcomes of the networks
trained on parts is computed again with PyTorch in f64: gradients of single examples by automatic
differentiation, their compression with the maps of the store, and the scores by the formulas of the
released code of GraSS:

- `influence`: `BlockProjectedIF` with the empirical Fisher matrix of each layer, damped by d times
  its mean diagonal, preconditioned examples times queries;
- `grad-dot`: the same with the identity; `trak`: margins, one matrix of all layers, times 1 - p,
  where the damping is one of the mean diagonal of the Fisher matrix, as here;
- LDS: Spearman's correlation of sums over parts with the margins in `parts/`, mean over queries.

Prints a table; the exit code is 1 if a mean LDS differs by more than 0.01 from that in
`result.json`.
"""

import argparse
import gzip
import json
import pathlib
import struct
import sys

import numpy as np
import torch
from safetensors.numpy import load_file

TOLERANCE = 0.01


def idx(path):
    data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    extents = struct.unpack(f">{data[3]}I", data[4:4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(extents)


class Mlp:
    """The saved network: linear layers with biases and ReLU between them."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
        self.mean, self.std = (np.array(config["input"][name]) for name in ("mean", "std"))
        self.names = [layer["linear"]["name"] for layer in config["layers"]
                      if isinstance(layer, dict) and "linear" in layer]
        as_f64 = lambda name: torch.tensor(tensors[name].astype(np.float64))
        self.weights = [as_f64(f"{name}.weight") for name in self.names]
        self.biases = [as_f64(f"{name}.bias") for name in self.names]

    def factors(self, images, classes):
        """Inputs with a one, and gradients of minus the margin, of each layer; the margins."""
        pixels = images.reshape(len(images), -1).astype(np.float64) / 255
        x = torch.tensor((pixels - self.mean) / self.std)
        inputs, outputs = [], []
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            inputs.append(torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1))
            y = (x @ weight.T + bias).requires_grad_()
            outputs.append(y)
            x = y.relu() if place + 1 < len(self.weights) else y
        own = x.gather(1, classes[:, None])
        others = x.masked_fill(torch.nn.functional.one_hot(classes, x.shape[1]).bool(), -torch.inf)
        margins = own[:, 0] - others.logsumexp(1)
        gradients = torch.autograd.grad(-margins.sum(), outputs)
        return [a.detach() for a in inputs], list(gradients), margins.detach()


class Maps:
    """The maps of a layer of the store: dense factors, masks, and signs of the product."""

    def __init__(self, path):
        self.parts = load_file(path)

    def factor(self, role, x):
        if f"{role}.0.matrix" in self.parts:
            matrix = torch.tensor(self.parts[f"{role}.0.matrix"].astype(np.float64))
            return x @ matrix / matrix.shape[1] ** 0.5
        if f"{role}.0.idx" in self.parts:
            return x[:, self.parts[f"{role}.0.idx"].astype(np.int64)]
        return x

    def __call__(self, x, g):
        rows = torch.einsum("bi,bj->bij", self.factor("out", g), self.factor("inp", x)).flatten(1)
        if "flat.0.sign" not in self.parts:
            return rows
        targets = torch.tensor(self.parts["flat.0.idx"].astype(np.int64))
        signs = torch.tensor(self.parts["flat.0.sign"].astype(np.float64))
        image = torch.zeros(len(rows), int(targets.max()) + 1, dtype=rows.dtype)
        return image.index_add_(1, targets, rows * signs)


def compressed(net, store, images, classes):
    inputs, gradients, margins = net.factors(images, classes)
    paths = sorted((store / "maps").glob("*.safetensors"))
    return [Maps(path)(a, g) for path, a, g in zip(paths, inputs, gradients)], margins


def damped(matrix, relative):
    return matrix + relative * matrix.trace() / len(matrix) * torch.eye(len(matrix), dtype=matrix.dtype)


def scores(method, relative, train, queries, margins):
    if method == "grad-dot":
        return sum(y @ q.T for y, q in zip(train, queries))
    if method == "influence":
        solve = lambda y, q: torch.linalg.solve(damped(y.T @ y / len(y), relative), y.T).T @ q.T
        return sum(solve(y, q) for y, q in zip(train, queries))
    y, q = torch.cat(train, 1), torch.cat(queries, 1)
    products = torch.linalg.solve(damped(y.T @ y / len(y), relative), y.T).T @ q.T
    return products * torch.sigmoid(-margins)[:, None]


def ranks(values):
    """Ranks with means of ties, by column."""
    found = np.empty_like(values)
    for column in range(values.shape[1]):
        _, inverse, counts = np.unique(values[:, column], return_inverse=True, return_counts=True)
        ends = counts.cumsum()
        found[:, column] = ((ends - counts + ends - 1) / 2)[inverse]
    return found


def lds(scores, parts, outcomes):
    sums = np.stack([scores[part].sum(0) for part in parts])
    a, b = (ranks(values) for values in (sums, outcomes))
    a, b = a - a.mean(0), b - b.mean(0)
    return ((a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("net", "store", "lds", "images", "labels"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--train", default="0-4999", help="images of the store, as one range")
    parser.add_argument("--queries", default="5000-5499")
    args = parser.parse_args()
    images, labels = idx(args.images), torch.tensor(idx(args.labels).astype(np.int64))
    chosen = lambda text: slice(int(text.split("-")[0]), int(text.split("-")[1]) + 1)
    net = Mlp(args.net)
    train, margins = compressed(net, args.store, images[chosen(args.train)], labels[chosen(args.train)])
    queries, _ = compressed(net, args.store, images[chosen(args.queries)], labels[chosen(args.queries)])
    files = sorted((args.lds / "parts").glob("*.json"))
    read = [json.loads(path.read_text()) for path in files]
    read = [part.get("cell", part) for part in read]
    parts = [np.array(part["examples"]) for part in read]
    outcomes = np.array([part["margins"] for part in read])
    worst = 0.0
    for row in json.loads((args.lds / "result.json").read_text())["results"]:
        method, damping = row["method"], row["damping"]
        if method not in ("influence", "grad-dot", "trak"):
            continue
        relative = float(damping.removeprefix("relative:")) if damping else 0.0
        found = scores(method, relative, train, queries, margins).numpy()
        expected = lds(found, parts, outcomes)
        worst = max(worst, abs(expected - row["lds"]))
        print(f"{method:10} {damping or '':15} here {row['lds']:.5f}  reference {expected:.5f}")
    print(f"largest difference {worst:.2g}")
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
