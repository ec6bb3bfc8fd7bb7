"""What dividing a job costs: shards by hand, by Slurm's script, by Ray and by MPI, against one process.

    python tools/bench/engines.py --binary linwright --mpi-binary linwright-with-mpi --record RECORD.csv

The job is a sweep of `pocket`. One process has two threads; shards have one each, two at a time, so that all use the same
two cores. `sbatch` is a stand-in that runs two tasks of an array at a time. MPI runs two ranks, a shard each. What an engine
takes longer than one process, over the number of shards, is what a shard costs: start, model, questions, merge. Of a job of
ten minutes in 16 shards that is the share that is told. Ray and MPI are left out where they are not installed.
"""

import argparse
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import time

import record

SBATCH = """#!/usr/bin/env bash
set -euo pipefail
script="$(cat)"
last=0
for argument in "$@"; do
    case "$argument" in --array=*) last="${argument#--array=0-}" ;; esac
done
seq 0 "$last" | SCRIPT="$script" xargs -P 2 -I {} env SLURM_ARRAY_TASK_ID={} SLURM_CPUS_PER_TASK=1 bash -c 'eval "$SCRIPT"' > /dev/null
echo 1
"""
# A job of ten minutes.
LONG = 600


class Engines:
    def __init__(self, args, folder):
        self.args, self.folder = args, pathlib.Path(folder)
        self.job = ["sweep", "pocket", "--roles", args.lname, "--size", f"rate={args.rate}", "--tasks", "pocket", "--limit",
                    str(args.limit), "--no-cache", "--quiet"]

    def run(self, *words):
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM"):
            environment[f"OMPI_{name}"] = "1"
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def whole(self):
        self.run(self.args.binary, *self.job, "--threads", 2, "-o", "whole")

    def by_hand(self):
        binary, shards = self.args.binary, self.args.shards
        job = " ".join([str(binary), *self.job, "--threads=1"])
        line = f"seq 0 {shards - 1} | xargs -P 2 -I {{}} {job} --shard {{}}/{shards} -o hand.shards/{{}} && "
        merge = f"{binary} merge hand.shards/* -o hand --quiet"
        self.run("bash", "-c", f"mkdir hand.shards && {line} {merge}")

    def slurm(self):
        script = self.run(self.args.binary, "slurm", "--shards", self.args.shards, *self.job, "-o", "slurm")
        self.run("bash", "-c", script)

    def mpi(self):
        self.run("mpirun", "-n", 2, self.args.mpi_binary, "--mpi", *self.job, "--threads", 1, "-o", "mpi")

    def ray(self):
        import linwright
        import linwright.ray

        os.chdir(self.folder)
        options = {"lname": self.args.lname.split(","), "rate": [float(rate) for rate in self.args.rate.split(",")],
                   "questions": "pocket", "limit": self.args.limit, "no_cache": True}
        linwright.ray.run(linwright.sweep, shards=self.args.shards, model="pocket", memory_bytes=1 << 28, output="ray",
                          progress=False, **options)


def timed(engine, output):
    for folder in (output, f"{output}.shards"):
        shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    engine()
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--mpi-binary", type=pathlib.Path)
    parser.add_argument("--ray", action="store_true", help="linwright and ray are installed in this environment")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--lname", default="fc_in,fc_out")
    parser.add_argument("--rate", default="9.5,9,8,6,4,2")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--record", type=pathlib.Path)
    args = parser.parse_args()
    args.binary = args.binary.absolute()
    args.mpi_binary = args.mpi_binary and args.mpi_binary.absolute()
    with tempfile.TemporaryDirectory() as folder:
        engines = Engines(args, folder)
        link = engines.folder / "linwright"
        link.symlink_to(args.binary)
        sbatch = engines.folder / "sbatch"
        sbatch.write_text(SBATCH)
        sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)
        names = {"one process": (engines.whole, "whole"), "by hand": (engines.by_hand, "hand"), "Slurm": (engines.slurm, "slurm")}
        if args.mpi_binary:
            names["MPI"] = (engines.mpi, "mpi")
        if args.ray:
            import ray

            ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
            names["Ray"] = (engines.ray, "ray")
        seconds = {name: [] for name in names}
        for _ in range(args.rounds):
            for name, (engine, output) in names.items():
                seconds[name].append(timed(engine, engines.folder / output))
                print(name, f"{seconds[name][-1]:.1f} s", flush=True)
        results = {(engines.folder / output / "result.json").read_bytes() for _, output in names.values()}
        assert len(results) == 1, "engines give different results"
        for name, times in seconds.items():
            if args.record:
                record.append(args.record, "engines", "pocket", name, f"{args.shards} shards, 2 cores", "time", "s", times)
            if name == "one process":
                continue
            more = [time - whole for time, whole in zip(times, seconds["one process"])]
            share = [one / LONG for one in more]
            print(name, f"{more[0]:.1f} s more, {100 * share[0]:.1f} % of ten minutes")
            if args.record:
                setting = f"{args.shards} shards, 2 cores"
                record.append(args.record, "engines", "pocket", name, setting, "more than one process", "s", more)
                record.append(args.record, "engines", "pocket", name, setting, "more / a job of ten minutes", "", share)


main()
