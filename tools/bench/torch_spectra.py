"""The other side of spectra.py: singular values of every matrix of a file, by PyTorch.

    python tools/bench/torch_spectra.py FILE.safetensors --threads N

Prints JSON: seconds by the clock and of CPU, loading not counted. As `linwright inspect --spectra`
does, it takes the values of each matrix and those of the matrix with rows of length one.
"""

import argparse
import json
import time

import torch
from safetensors.torch import load_file


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    matrices = list(load_file(args.file).values())
    torch.linalg.svdvals(matrices[0][:64, :64])
    wall, cpu = time.perf_counter(), time.process_time()
    for w in matrices:
        torch.linalg.svdvals(w)
        torch.linalg.svdvals(w / w.norm(dim=1, keepdim=True))
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
