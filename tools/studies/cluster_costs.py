"""What statistics, compression and attribution of large models cost on 1, 8 and 64 nodes, from measured costs.

    linwright compress MODEL --keep 0.8 --calibration TEXT:num_tokens=262144,seq_len=2048 -o OUT --offload --dry-run --json > plan.json
    linwright attribute cache SMALL --train TEXT --compress factgrass:4096 --reading max_length=256 -o STORE --dry-run --json > cache.json
    python tools/studies/cluster_costs.py --plan 8B=plan.json --cache cache.json

A dry run times fits of small layers on this machine and counts the work of all; what is left of its time is the capture, two
forward passes with sums. MODEL may be sparse (`tools/bench/random_llama.py --sparse`). `linwright --mpi` divides a capture by
windows, and the fits of the layers that read one input by layers: a node counts as this machine. Bytes are those that
`crates/measure` sends: sums over inputs and outputs for training and validation, in two doubles each, once for each node and layer;
along a tree of `log2 N` levels they are waited for. Gradients of examples cost what a dry run of the small model says,
in proportion to the parameters, and divide without exchange.
"""

import argparse
import json
import math
import pathlib

HOUR = 3600
NODES = (1, 8, 64)


def groups(sites):
    """The sites that read one input, in order: query, key and value; output; gate and up; down."""
    found = []
    for site in sites:
        name = site["site"].rsplit(".", 1)[-1]
        first = name in ("q_proj", "o_proj", "gate_proj", "down_proj")
        found.append([site]) if first else found[-1].append(site)
    return found


def shape(site, hidden):
    """Outputs and inputs of a site of a Llama, from its parameters."""
    name, count = site["site"].rsplit(".", 1)[-1], site["dense_parameters"]
    return (hidden, count // hidden) if name in ("o_proj", "down_proj") else (count // hidden, hidden)


def message(group, hidden):
    """Bytes of the sums of a group that a node sends: training and validation."""
    _, inp = shape(group[0], hidden)
    inputs = 2 * 8 * (inp * inp + 5 * inp + 2)
    return inputs + sum(2 * 16 * (out * inp + out + 2) for out, inp in (shape(site, hidden) for site in group))


def compression(plan, nodes, bandwidth):
    """Hours of capture, fits and messages, and gigabytes that a node sends."""
    estimate = plan["estimate"]
    sites = estimate["sites"]
    hidden = math.isqrt(sites[0]["dense_parameters"])
    all_groups = groups(sites)
    capture = estimate["seconds"] - sum(site["seconds"] for site in sites)
    number, fits, sent, waited = 0, 0.0, 0, 0.0
    for group in all_groups:
        own = [0.0] * nodes
        for site in group:
            own[number % nodes] += site["seconds"]
            number += 1
        fits += max(own)
        if nodes > 1:
            size = message(group, hidden)
            factors = sum(4 * site["parameters"] for site in group)
            sent += size + factors
            waited += (size + factors) * math.ceil(math.log2(nodes)) / bandwidth
    return capture / nodes / HOUR, fits / HOUR, waited / HOUR, sent / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--cache", required=True, type=pathlib.Path)
    parser.add_argument("--tokens", type=float, default=1e8, help="of all examples of the attribution")
    parser.add_argument("--example-tokens", type=float, default=256, help="of an example, also of --cache")
    parser.add_argument("--gigabits", type=float, default=10, help="of the network in a second")
    args = parser.parse_args()
    cache = json.loads(args.cache.read_text())
    per_token = cache["estimate"]["seconds"] / cache["examples"] / args.example_tokens
    row_bytes = cache["shard_bytes"] / cache["examples"] / cache["layers"]
    print("| model | nodes | capture | fits | messages | compression | GB sent by a node | attribution | store |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for named in args.plan:
        name, _, path = named.partition("=")
        plan = json.loads(pathlib.Path(path).read_text())
        parameters = plan["estimate"]["targeted_dense"]
        layers = len(plan["estimate"]["sites"])
        store = args.tokens / args.example_tokens * layers * row_bytes / 1e12
        for nodes in NODES:
            capture, fits, waited, sent = compression(plan, nodes, args.gigabits / 8 * 1e9)
            gradients = per_token * parameters / cache["parameters"] * args.tokens / nodes / HOUR
            print(f"| {name} | {nodes} | {capture:.1f} h | {fits:.1f} h | {waited:.2f} h | {capture + fits + waited:.1f} h"
                  f" | {sent:.0f} | {gradients:.0f} h | {store:.2f} TB |")


main()
