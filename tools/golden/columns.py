"""Small data sets in Parquet and Arrow, and a cache of the library `datasets` (5.2.0, pyarrow 26.0.1).

    python tools/golden/columns.py testdata/columns

`rows.json` is what their rows are as JSON. The cache is filled by `datasets` itself, by the builder that
a data set of JSON files on the hub gets, so its folders and file names are the real ones.
"""

import datetime
import decimal
import json
import math
import os
import shutil
import sys
import tempfile

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from datasets.packaged_modules.json.json import Json

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAMES = ["Tom", "Mira", None, "the miller"]


def table():
    count = len(NAMES)
    choices = [{"text": ["a boat", f"key {i}"], "label": ["A", "B"]} for i in range(count)]
    return pa.table(
        {
            "id": [f"q{i}" for i in range(count)],
            "who": NAMES,
            "label": pa.array([0, 1, 2, -1], pa.int64()),
            "small": pa.array([1, None, 3, 4], pa.int8()),
            "large": pa.array([2**64 - 1, 0, 1, 2], pa.uint64()),
            "share": pa.array([0.5, float("nan"), None, -2.25], pa.float64()),
            "short": pa.array([0.5, 1.5, 2.5, float("inf")], pa.float32()),
            "seen": [True, False, None, True],
            "tags": pa.array([["x", "y"], [], None, ["z", None]], pa.list_(pa.string())),
            "choices": choices,
            "nothing": pa.nulls(count),
            "kind": pa.array(["often", "rarely", "often", None]).dictionary_encode(),
            "when": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5)] * count, pa.timestamp("us")),
            "zoned": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5)] * count, pa.timestamp("ms", "UTC")),
            "day": pa.array([datetime.date(2024, 2, 29)] * count),
            "price": pa.array([decimal.Decimal("1.50")] * count, pa.decimal128(6, 2)),
        }
    )


def plain(value):
    """A value of Python as the readers give it."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (datetime.date, datetime.datetime, decimal.Decimal)):
        return str(value)
    return value


def write_rows(folder):
    rows = table()
    pq.write_table(rows, f"{folder}/rows.parquet", compression="snappy", row_group_size=3)
    pq.write_table(rows, f"{folder}/rows_zstd.parquet", compression="zstd", data_page_version="2.0")
    pq.write_table(rows.select(["id"]), f"{folder}/rows_gzip.parquet", compression="gzip")
    with pa.OSFile(f"{folder}/rows.arrow", "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows, max_chunksize=3)
    with pa.OSFile(f"{folder}/rows_file.arrow", "wb") as sink, pa.ipc.new_file(sink, rows.schema) as out:
        out.write_table(rows)
    # One value, often: a short file of many rows.
    many = pa.table({"text": pa.array(["lantern " * 4000] * 60_000).dictionary_encode()})
    pq.write_table(many, f"{folder}/swelling.parquet", compression="zstd")
    with open(f"{folder}/rows.json", "w") as file:
        json.dump(plain(rows.to_pylist()), file, indent=1)
        file.write("\n")


def write_cache(folder):
    question = lambda i: {"id": f"q{i}", "question": f"Who saw boat {i}?", "answer": i % 2}
    cache = f"{folder}/cache"
    shutil.rmtree(cache, ignore_errors=True)
    with tempfile.TemporaryDirectory() as source:
        files = {}
        for split, counts in [("train", [3, 2]), ("test", [4])]:
            files[split] = [f"{source}/{split}{shard}.jsonl" for shard in range(len(counts))]
            for shard, path in enumerate(files[split]):
                with open(path, "w") as file:
                    file.writelines(json.dumps(question(10 * shard + i)) + "\n" for i in range(counts[shard]))
        # The second is as a caller leaves it who names files: its folder ends in a hash of them.
        for config, config_id in [("Easy", "Easy"), ("default", None)]:
            builder = Json(
                cache_dir=cache,
                dataset_name="BoatQuestions",
                config_name=config,
                config_id=config_id,
                hash=COMMIT,
                data_files=datasets.data_files.DataFilesDict(files),
                features=datasets.Features(
                    {
                        "id": datasets.Value("string"),
                        "question": datasets.Value("string"),
                        "answer": datasets.ClassLabel(names=["Tom", "Mira"]),
                    }
                ),
            )
            # The files are not on the hub, which is checked where the name is given at once.
            builder.repo_id = "owner/BoatQuestions"
            builder._cache_dir = builder._build_cache_dir()
            builder.download_and_prepare(num_proc=2)
    for path, _, names in os.walk(cache):
        for name in names:
            if name.endswith(".lock"):
                os.remove(os.path.join(path, name))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    write_rows(folder)
    write_cache(folder)


if __name__ == "__main__":
    main()
