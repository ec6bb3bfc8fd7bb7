"""Compares ids of text full of what looks like special tokens with those of transformers.

    cargo build -p linwright-model --example tokenize
    python tools/parity/special_tokens.py

For every family there is a `tokenizer.json` of its kind, made from the small vocabularies of
`testdata/tokenizers`, with its added tokens and without; beside it a `tokenizer_config.json` that names
the class of the family, another one, the general one or none, and tokens of roles or none. Every id must
be that of `AutoTokenizer`, or Linwright must refuse; one that differs ends the script with 1. Folders that
transformers refuses are counted. `--record testdata/tokenizers/special.json` writes cases that a test
repeats.
"""

import argparse
import collections
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import transformers
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Model types, and the folder of testdata whose vocabulary is of their kind.
FAMILIES = {
    "llama": "llama", "mistral": "llama", "phi3": "llama", "gemma": "gemma", "gemma2": "gemma",
    "gemma3_text": "gemma", "gpt2": "gpt2", "gptj": "gpt2", "opt": "gpt2", "phi": "gpt2",
    "gpt_neox": "gpt2", "olmo": "gpt2", "olmo2": "gpt2", "stablelm": "gpt2", "smollm3": "gpt2",
    "qwen2": "qwen2", "qwen3": "qwen2", "bert": "bert-uncased", "distilbert": "bert-uncased",
    "roberta": "roberta", "xlm-roberta": "xlm-roberta",
}
CLASSES = [None, "TokenizersBackend", "PreTrainedTokenizerFast", "PreTrainedTokenizer", "LlamaTokenizer",
           "LlamaTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast",
           "Qwen2Tokenizer", "GPTNeoXTokenizer", "GPTNeoXTokenizerFast", "BertTokenizer", "RobertaTokenizer",
           "XLMRobertaTokenizer", "NoSuchTokenizer"]
#: The classes that vocabularies of a kind are given under.
FITTING = {
    "llama": ("LlamaTokenizer", "GemmaTokenizer"), "gemma": ("GemmaTokenizer", "LlamaTokenizer"),
    "gpt2": ("GPT2Tokenizer", "GPTNeoXTokenizer", "LlamaTokenizer", "Qwen2Tokenizer"),
    "qwen2": ("Qwen2Tokenizer", "GPT2Tokenizer", "LlamaTokenizer"),
    "bert-uncased": ("BertTokenizer",), "roberta": ("RobertaTokenizer", "GPT2Tokenizer"),
    "xlm-roberta": ("XLMRobertaTokenizer",),
}
GENERAL = (None, "TokenizersBackend", "PreTrainedTokenizerFast", "PreTrainedTokenizer", "NoSuchTokenizer")
ROLES = [{}, {"bos_token": "<s>", "eos_token": "</s>"}, {"unk_token": "<unk>"}, {"pad_token": "<pad>"},
         {"eos_token": "<|endoftext|>", "extra_special_tokens": ["<|im_end|>"]}]
TEXTS = [
    "a <unk> b", "<s>text</s>", "<pad><bos>x<eos>", "x <mask> y<mask>z", "[CLS] a [MASK] b [SEP] [PAD] [UNK]",
    "<|endoftext|>x <|endoftext|>", "<|im_start|>user hi<|im_end|>", "<start_of_turn>a<end_of_turn>",
    "<|user|> <ctl> <|padding|>", "<0x41> the river", " leading <unk>", "<unk><unk>", "UNK <UNK> [unk]",
    "the <s> river </s> harbour", "plain text without any, twice", "",
]


def jsons(scratch):
    """The tokenizer.json of each kind."""
    made = {}
    for kind in sorted(set(FAMILIES.values())):
        tokenizer = AutoTokenizer.from_pretrained(ROOT / "testdata/tokenizers" / kind)
        tokenizer.save_pretrained(scratch / kind)
        made[kind] = json.loads((scratch / kind / "tokenizer.json").read_text())
    return made


def folders(made, work):
    for (model_type, kind), bare in itertools.product(FAMILIES.items(), (False, True)):
        classes = [name for name in CLASSES
                   if name in GENERAL or name.removesuffix("Fast") in FITTING[kind]]
        document = json.loads(json.dumps(made[kind]))
        if bare:
            document["added_tokens"] = []
            document["post_processor"] = None
        for number, (name, roles) in enumerate(itertools.product(classes, ROLES)):
            folder = work / f"{model_type}-{bare}-{number}"
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
            (folder / "tokenizer.json").write_text(json.dumps(document))
            settings = roles | ({} if name is None else {"tokenizer_class": name})
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
            words = f"{model_type}, {'no added tokens' if bare else 'added tokens'}, {json.dumps(settings)}"
            yield folder, words


def expected(folder):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text).input_ids for text in TEXTS]
    except Exception as error:  # noqa: BLE001 - whatever a class of transformers says
        return error


def record(target):
    """Cases on the one tokenizer.json of testdata, which the tests read."""
    document = json.loads((ROOT / "testdata/tokenizers/llama-json/tokenizer.json").read_text())
    types = ("llama", "mistral", "gemma", "gemma2", "gpt2", "gpt_neox", "qwen3", "smollm3")
    of_bytes = ("gpt2", "gpt_neox", "qwen3")
    names = (None, "TokenizersBackend", "PreTrainedTokenizerFast", "LlamaTokenizer", "GemmaTokenizer")
    cases = []
    for model_type, bare, name in itertools.product(types, (False, True), names):
        if name is None and model_type in of_bytes:
            # The class of the model would cut these pieces into bytes that they are not made of.
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            settings = {} if name is None else {"tokenizer_class": name}
            changed = document | ({"added_tokens": [], "post_processor": None} if bare else {})
            (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
            (folder / "tokenizer.json").write_text(json.dumps(changed))
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
            ids = expected(folder)
        if not isinstance(ids, Exception):
            cases.append({"model_type": model_type, "bare": bare, "settings": settings, "ids": ids[:6]})
    head = {"script": "tools/parity/special_tokens.py --record", "texts": TEXTS[:6],
            "versions": {"transformers": transformers.__version__}}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    target.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")
    print(f"{len(cases)} cases")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=pathlib.Path, help="write the cases that a test repeats")
    parser.add_argument("--program", default=str(ROOT / "target/debug/examples/tokenize"))
    options = parser.parse_args()
    transformers.logging.set_verbosity(50)
    if options.record:
        return record(options.record)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        work = scratch / "work"
        work.mkdir()
        for folder, words in folders(jsons(scratch), work):
            run = subprocess.run([options.program, str(folder)], input=json.dumps(TEXTS),
                                 capture_output=True, text=True)
            said = expected(folder)
            accepts = run.returncode == 0
            if isinstance(said, Exception):
                counts["only transformers refuses" if accepts else "both refuse"] += 1
            elif not accepts:
                counts["only linwright refuses"] += 1
            else:
                found = json.loads(run.stdout)
                wrong = [i for i, pair in enumerate(zip(found, said, strict=True)) if pair[0] != pair[1]]
                counts["differ" if wrong else "equal"] += 1
                for i in wrong[:1]:
                    print(f"{words}: {TEXTS[i]!r} of {len(wrong)}: {found[i]} instead of {said[i]}")
    print(f"{sum(counts.values())} folders, {len(TEXTS)} texts each, transformers "
          f"{transformers.__version__}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
