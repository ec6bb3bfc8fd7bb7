"""Time, memory and error of the paper's main case: rotor networks for query, key and value of one layer.

    python tools/bench/random_llama.py MODEL --shape llama-3.2-1b --layers 1 --vocab 4096 --dtype f32 --tokens 20480
    python tools/bench/rotor_fit.py MODEL --code CODE --work WORK --record RECORD.csv --steps 6

CODE is the published code of arXiv:2507.11688: `rotor_layer.py` and `rotor_network.py`, run unchanged with
the settings of its `config.yaml` and the steps of its `train.py`: two hidden layers of three double rotors,
permutations, layer norms, PReLU, one epoch of Adam in batches of 256 with its scheduler. Its algebra package
is a fork that cannot be had: `algebra_of` below has what the code calls of it, with multivectors as vectors
and each matrix of a rotor by two gathers and one product. The package builds them with sparse Cayley tables;
whether that is slower or faster is not known here, so the share of a step within the stand-in, its backward
pass apart, is recorded too.

Both programs read the same tokens, for one epoch of their training rows (nine tenths of all in Linwright,
four fifths in the published code). The layer is the first, whose input is the normalised embedding. Left out of the published seconds: tables of the algebra, evaluations, files. Weights
are random, so that errors say little; Linwright reports the best of its validations, as always.
"""

import argparse
import json
import math
import pathlib
import shutil
import statistics
import sys
import time
import types

import child
import record

PARTS = ("query", "key", "value")


def algebra_of(torch, generators):
    """What the code calls of an algebra of so many basis vectors, over batches."""
    size = 1 << generators
    pairs = torch.tensor([(i, j) for i in range(generators) for j in range(i + 1, generators)]).T
    first, second = pairs
    blades = (1 << first) | (1 << second)
    every = torch.arange(size)

    def sign(a, b):
        """The sign of the product of two basis blades."""
        swaps = torch.zeros(torch.broadcast_shapes(a.shape, b.shape), dtype=torch.int64)
        for shift in range(1, generators):
            common = (a >> shift) & b
            for bit in range(generators):
                swaps += (common >> bit) & 1
        return (1 - 2 * (swaps % 2)).float()

    grade = sum((every >> bit) & 1 for bit in range(generators))
    reversal = (1 - 2 * ((grade * (grade - 1) // 2) % 2)).float()
    # Row i and column j of the matrices of x -> r x and of x -> x s hold component i ^ j.
    place = every[:, None] ^ every
    of_left, of_right = sign(place, every[None, :]), sign(every[None, :], place)
    # Component m of r times a bivector blade is component m ^ blade of r.
    source = every ^ blades[:, None]
    of_blade = sign(source, blades[:, None])

    class Algebra:
        _num_bases = generators
        # Seconds within the methods below, called from outside.
        seconds = 0.0

        def skew(self, bivectors):
            upper = bivectors.new_zeros(len(bivectors), generators, generators)
            upper[:, first, second] = bivectors
            return upper - upper.transpose(1, 2)

        def inner_prod_vecbiv(self, vectors, bivectors):
            return torch.bmm(vectors[:, None], self.skew(bivectors))[:, 0]

        def ext_prod_vecvec(self, v, w):
            return v[:, first] * w[:, second] - v[:, second] * w[:, first]

        def exp_simple_batched(self, bivectors):
            angle = torch.linalg.vector_norm(bivectors, dim=1, keepdim=True)
            return torch.cat((torch.cos(angle), torch.sinc(angle / math.pi) * bivectors), dim=1)

        def rotor(self, parts):
            product = parts.new_zeros(parts.shape[1], size)
            product[:, 0] = 1.0
            for part in parts:
                turned = torch.einsum("cb,cbm->cm", part[:, 1:], product[:, source] * of_blade)
                product = part[:, :1] * product + turned
            return product

        def precompute_sandwich_product_doublerotor(self, left, right):
            left, right = self.rotor(left), self.rotor(right) * reversal
            return (left[:, place] * of_left) @ (right[:, place] * of_right)

    def timed(name):
        inner = getattr(Algebra, name)

        def outer(self, *arguments):
            began = time.monotonic()
            found = inner(self, *arguments)
            Algebra.seconds += time.monotonic() - began
            return found

        return outer

    for name in ("inner_prod_vecbiv", "ext_prod_vecvec", "exp_simple_batched",
                 "precompute_sandwich_product_doublerotor"):
        setattr(Algebra, name, timed(name))
    return Algebra()


def reference(args):
    """Seconds of each training step of each projection, and the error on the test rows."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    sys.modules["torch_ga"] = types.SimpleNamespace(GeometricAlgebra=None)
    sys.path.insert(0, str(args.code))
    from rotor_layer import Rotor
    from rotor_network import NeuralNetwork

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    weights = load_file(next(pathlib.Path(args.model).glob("*.safetensors")))
    text = (pathlib.Path(args.model) / "text.txt").read_text()
    ids = AutoTokenizer.from_pretrained(args.model)(text)["input_ids"][: args.tokens]
    rows = weights["model.embed_tokens.weight"].float()[ids]
    rows = rows * torch.rsqrt(rows.pow(2).mean(1, keepdim=True) + 1e-5)
    order = torch.randperm(len(rows))
    train, test = order[: len(rows) * 4 // 5], order[len(rows) * 4 // 5:]
    weights_of = {part: weights[f"model.layers.0.self_attn.{part[0]}_proj.weight"].float()
                  for part in args.parts}
    # A rotor has the largest power of two of its sides.
    sides = {rows.shape[1], *(min(weight.shape) for weight in weights_of.values())}
    algebras = {side.bit_length() - 1: algebra_of(torch, side.bit_length() - 1) for side in sides}
    Rotor.shared_algebras.update(algebras)
    found = {}
    for part in args.parts:
        weight = weights_of[part]
        target = rows @ weight.T
        began = time.monotonic()
        network = NeuralNetwork(
            input_dim=rows.shape[1], output_dim=len(weight), chunk_size=rows.shape[1],
            extra_rotor_layers=2, hidden_breadth=3, proj_parallel=False, single_rotor=False,
            use_perm=True, nonlinear="prelu", normalize=True, device="cpu")
        made = time.monotonic() - began
        optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1)
        loss_of, steps, inside = torch.nn.MSELoss(), [], []
        for batch in train.split(256)[: args.steps]:
            before, began = sum(type(a).seconds for a in algebras.values()), time.monotonic()
            loss = loss_of(network(rows[batch]), target[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # Once a batch, as the published loop does: the rate is 0.05 and 0 in turns.
            scheduler.step()
            network._update_rotors()
            steps.append(time.monotonic() - began)
            inside.append(sum(type(a).seconds for a in algebras.values()) - before)
        with torch.no_grad():
            off = sum((network(rows[b]) - target[b]).pow(2).sum() for b in test.split(256))
        parameters = sum(p.numel() for p in network.parameters())
        found[part] = {
            "made": made, "steps": steps, "inside": inside, "of": len(train.split(256)),
            "parameters": parameters, "error": (off / target[test].pow(2).sum()).item(),
        }
    return found


def ours(args):
    """Seconds and errors of the fits of Linwright, and what the whole command cost."""
    output = args.work / "rotors"
    cost = child.run_json([
        args.linwright, "compress", args.model, "--method", f"rotor:epochs={args.epochs}",
        "--roles", ",".join(args.parts), "--layers", "0", "--calibration",
        f"{args.model}/text.txt:num_tokens={args.tokens},seq_len=128", "--evaluation", "bos=never", "--heal", "none",
        "--output", output, "--force", "--threads", args.threads, "--json", "--quiet"])
    shutil.rmtree(output)
    return cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--code", type=pathlib.Path, required=True, help="the published code")
    parser.add_argument("--work", type=pathlib.Path, default="rotor-fit", help="directory for results")
    parser.add_argument("--record", default="rotor-fit.csv")
    parser.add_argument("--name", help="of the model in the record")
    parser.add_argument("--parts", nargs="*", default=list(PARTS))
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=1, help="of Linwright")
    parser.add_argument("--steps", type=int, help="stop each training after so many steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--linwright", default="target/release/linwright")
    parser.add_argument("--reference", action="store_true", help="run the reference alone")
    args = parser.parse_args()
    if args.reference:
        print(json.dumps(reference(args)))
        return
    args.name = args.name or args.model
    args.work.mkdir(parents=True, exist_ok=True)
    mine = ours(args)
    limit = ["--steps", args.steps] if args.steps else []
    theirs = child.run_json([
        sys.executable, __file__, args.model, "--code", args.code, "--reference", "--tokens",
        args.tokens, "--threads", args.threads, "--parts", *args.parts, *limit])
    name = "the published code, algebra rebuilt"
    whole = 0.0
    for part, found in theirs.result.items():
        step = statistics.median(found["steps"])
        whole += found["made"] + step * found["of"]
        record.append(args.record, "rotor fit", args.name, name, part, "training step", "s",
                      found["steps"])
        shares = [within / step for within, step in zip(found["inside"], found["steps"])]
        record.append(args.record, "rotor fit", args.name, name, part,
                      "share of a step within the algebra, forward", "1", shares)
        if not args.steps:
            record.append(args.record, "rotor fit", args.name, name, part, "relative error", "1",
                          [found["error"]])
    record.append(args.record, "rotor fit", args.name, name, "all", "training of an epoch", "s",
                  [whole])
    for program, peak in (("linwright", mine.peak_bytes), (name, theirs.peak_bytes)):
        record.append(args.record, "rotor fit", args.name, program, "all", "peak memory", "MB",
                      [peak / 1e6])
    for site in mine.result["sites"]:
        fit, parameters = site["fit"], theirs.result[site["role"]]["parameters"]
        if site["parameters"] != parameters:
            raise SystemExit(f"{site['site']}: {site['parameters']} parameters, "
                             f"of the published code {parameters}")
        record.append(args.record, "rotor fit", args.name, "linwright", site["role"], "relative error",
                      "1", [fit["relative_error"]])
        record.append(args.record, "rotor fit", args.name, "linwright", site["role"], "training step",
                      "s", [fit["seconds"] / fit["curve"][-1]["step"]])
    seconds = sum(stage["seconds"] for stage in mine.result["stages"] if "fitting" in stage["stage"])
    record.append(args.record, "rotor fit", args.name, "linwright", "all",
                  f"fits of {args.epochs} epochs", "s", [seconds])
    print(f"{seconds:.1f} s against {whole:.1f} s: {whole / seconds:.1f} times as fast; "
          f"{mine.peak_bytes / 1e6:.0f} MB against {theirs.peak_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
