"""Compares ids of real vocabularies with those of transformers, and the time that they take.

    python tools/parity/token_ids.py --gpt2 DIR --minilm DIR --text FILE [--llama2c FOLDER]

DIR of `--gpt2` holds `encoder.json` and `vocab.bpe` as OpenAI published them, that of `--minilm` a
`tokenizer.json` and a `vocab.txt`; FOLDER is what `linwright import` made of a llama2.c model. FILE is
any text, which is cut in documents; with it go the texts of `testdata/tokenizers`. Every id must
agree, or the script ends with 1. Times are medians of five runs on ten megabytes of text, with
two threads in both programs; that of Python is of the library that transformers calls. Build first:
`cargo build --release -p linwright-model --example tokenize`.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "2"
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import transformers
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 5
BYTES = 10_000_000


def ours(program, folder, texts):
    run = subprocess.run([program, str(folder)], input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(run.stdout), json.loads(run.stderr)


def documents(path):
    """Lines of a file, and one document of many lines."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    parts = [part for part in text.split("\n") if part.strip()]
    return parts[:4000] + [text[:200_000]]


def nasty():
    texts = json.loads((ROOT / "testdata/tokenizers/texts.json").read_text())["texts"]
    return [text if isinstance(text, str) else text["repeat"] * text["count"] for text in texts]


def compare(name, program, folder, reference, texts):
    found, _ = ours(program, folder, texts)
    expected = [reference(text).input_ids for text in texts]
    wrong = [index for index, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]]
    print(f"{name}: {len(texts)} texts, {sum(map(len, expected))} ids, {len(wrong)} texts differ")
    for index in wrong[:3]:
        print(repr(texts[index][:80]), found[index][:20], expected[index][:20])
    pairs = [[a, b] for a, b in zip(texts[:200], texts[1:201])]
    encoded, _ = ours(program, folder, pairs)
    reference = reference(pairs, return_token_type_ids=True)
    same = [one["ids"] for one in encoded] == reference.input_ids
    same = same and [one["types"] for one in encoded] == reference.token_type_ids
    print(f"{name}: {len(pairs)} pairs {'agree' if same else 'differ'}")
    return not wrong and same


def speed(name, program, folder, reference, texts):
    whole, many = 0, []
    while whole < BYTES:
        many.append(texts[len(many) % len(texts)])
        whole += len(many[-1].encode())
    rust, python, load = [], [], []
    backend = reference.backend_tokenizer
    for _ in range(RUNS):
        times = ours(program, folder, many)[1]
        rust.append(times["encode_seconds"])
        load.append(times["load_seconds"])
        start = time.perf_counter()
        # The ids as they are wanted: lists.
        [one.ids for one in backend.encode_batch_fast(many)]
        python.append(time.perf_counter() - start)
    rust, python = statistics.median(rust), statistics.median(python)
    print(f"{name}: {whole / 1e6:.1f} MB, load {statistics.median(load):.3f} s, {whole / 1e6 / rust:.2f} MB/s"
          f" against {whole / 1e6 / python:.2f} MB/s in Python, ratio {python / rust:.2f}")


def prepare(work, args):
    """Folders for both programs: what is read here, and what transformers reads."""
    gpt2 = work / "gpt2"
    gpt2.mkdir()
    renamed = work / "gpt2-renamed"
    renamed.mkdir()
    for name, other in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        shutil.copy(pathlib.Path(args.gpt2) / name, gpt2 / name)
        shutil.copy(pathlib.Path(args.gpt2) / name, renamed / other)
    for folder in (gpt2, renamed):
        (folder / "config.json").write_text('{"model_type": "gpt2"}')
    yield "gpt2, files of OpenAI", gpt2, renamed
    for name in ("tokenizer.json", "vocab.txt"):
        folder = work / name.replace(".", "-")
        folder.mkdir()
        shutil.copy(pathlib.Path(args.minilm) / name, folder / name)
        (folder / "config.json").write_text('{"model_type": "bert"}')
        yield f"minilm, {name}", folder, folder
    if args.llama2c:
        yield "llama2.c, converted", pathlib.Path(args.llama2c), pathlib.Path(args.llama2c)


def main():
    parser = argparse.ArgumentParser()
    for name in ("gpt2", "minilm", "text"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--llama2c")
    parser.add_argument("--program", default=str(ROOT / "target/release/examples/tokenize"))
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    texts = documents(args.text)
    agree = True
    with tempfile.TemporaryDirectory() as work:
        for name, folder, reference in prepare(pathlib.Path(work), args):
            tokenizer = AutoTokenizer.from_pretrained(reference)
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
            agree &= compare(name, args.program, folder, tokenizer, texts + nasty())
            speed(name, args.program, folder, tokenizer, texts[:-1])
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
