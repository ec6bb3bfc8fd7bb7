"""Shards that exchange what they find against one process on the same two cores.

    python tools/bench/exchange.py --binary linwright --rounds 3 --record RECORD.csv

One process has two threads; two shards have one each. Ratios above one say that shards are faster.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile
import time

import record

JOBS = {
    "compress, low rank": "compress pocket --keep 0.5 --calibration pocket",
    "compress, rotor networks": "compress pocket --method rotor:epochs=1 --calibration pocket:num_tokens=10000",
    "search": "search pocket --roles fc_in --tasks pocket --limit 200 --calibration pocket:num_tokens=10000",
    "compose": "compose pocket --roles fc_in --size rate=9.5,9,8,6 --tasks pocket --limit 200 --no-cache",
}


def run(binary, folder, words):
    return subprocess.Popen([binary, *words.split(), "--quiet"], cwd=folder, stdout=subprocess.DEVNULL)


def timed(start, folder):
    for name in ("whole", "shards", "shards.shards"):
        shutil.rmtree(folder / name, ignore_errors=True)
    began = time.monotonic()
    for process in start():
        if process.wait() != 0:
            raise RuntimeError(f"{process.args} failed")
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=pathlib.Path)
    args = parser.parse_args()
    binary = args.binary.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for title, job in JOBS.items():
            def whole():
                return [run(binary, folder, f"{job} --threads 2 -o whole")]

            def shards():
                return [run(binary, folder, f"{job} --threads 1 -o shards --shard {index}/2") for index in range(2)]

            alone, divided = [], []
            for _ in range(args.rounds):
                alone.append(timed(whole, folder))
                divided.append(timed(shards, folder))
            ratios = [one / other for one, other in zip(alone, divided)]
            print(f"{title}: {sorted(alone)[len(alone) // 2]:.1f} s, in two shards {sorted(divided)[len(divided) // 2]:.1f} s")
            if args.record:
                record.append(args.record, "exchange", "pocket", title, "one process, 2 threads", "time", "s", alone)
                record.append(args.record, "exchange", "pocket", title, "2 shards, 1 thread each", "time", "s", divided)
                record.append(args.record, "exchange", "pocket", title, "2 shards", "one process / shards", "", ratios)


main()
