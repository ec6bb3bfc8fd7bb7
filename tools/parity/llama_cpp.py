"""Compares what llama.cpp makes of our GGUF files with what transformers computes from the original models.

    cargo build -p linwright-cli && cargo build -p linwright-model --example logits
    python tools/parity/llama_cpp.py --work /tmp/llama-cpp

Tiny random models of every family that `linwright export --form gguf` writes are made with transformers, in all
variants that decide numbers (llama_cpp_cases.py), each with a small tokenizer, and exported in f32. llama.cpp, by the
package xllamacpp, computes the log-probabilities of all tokens after prompts within and beyond the original context
and the window, or the vector of an encoder; so does linwright, from the same file. Both are compared with
transformers on the original, the largest difference of two log-probabilities below TOLERANCE: llama.cpp keeps
tables of GELU in 16 bits, so that a family with it has a wider one. A prompt given as text must reach the same
numbers, so that the vocabulary and the policy of special tokens are compared, too. What llama.cpp cannot run must be
refused, and what it computes otherwise beyond a length must be noted, by name. If anything else happens, the exit
code is 1.

It needs torch, transformers, tokenizers, numpy and xllamacpp; `--check-packages` only says which are absent.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "xllamacpp")
ABSENT = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
if ABSENT:
    print(f"absent packages: {', '.join(ABSENT)}; pip install {' '.join(ABSENT)}", file=sys.stderr)
    sys.exit(2)

import numpy as np  # noqa: E402

import llama_cpp_cases  # noqa: E402

#: Largest difference of two log-probabilities, or of two entries of a vector of length one.
TOLERANCE = 5e-4
#: The same between linwright and transformers.
TOLERANCE_OWN = 5e-4
TEXT = "The quick brown fox, 12 dogs and a caf\u00e9 in 2024."
CORPUS = [TEXT, "She said: it's what they'll have; we've seen 3 of them.", "one two three four five six seven eight"]
SEED = 7


# What runs in a process of its own: llama.cpp ends the process where a file is wrong.


def answer(job):
    """Rows of llama.cpp for the prompts of one file."""
    import xllamacpp

    rows = []
    for context, prompts in job["runs"]:
        params = xllamacpp.CommonParams()
        params.model.path = job["path"]
        params.n_ctx, params.n_parallel, params.n_gpu_layers = context, 1, 0
        params.n_batch = params.n_ubatch = max(context, 512)
        params.warmup, params.fit_params, params.verbosity = False, False, 0
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        if job["encoder"]:
            params.embedding = True
            if job["pooling"]:
                params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        server = xllamacpp.Server(params)
        rows += [ask(server, prompt, job) for prompt in prompts]
    return rows


def ask(server, prompt, job):
    if job["encoder"]:
        reply = server.handle_embeddings({"input": prompt})
        return {"row": reply["data"][0]["embedding"], "tokens": reply["usage"]["prompt_tokens"]}
    reply = server.handle_completions(
        {"prompt": prompt, "max_tokens": 1, "logprobs": job["vocab"], "temperature": 1.0, "cache_prompt": False,
         # The token that is drawn must have a text of its own; probabilities are those before this bias.
         "logit_bias": [[job["letter"], 1e4]]})
    if "choices" not in reply:
        raise RuntimeError(json.dumps(reply))
    row = [None] * job["vocab"]
    for entry in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
        row[entry["id"]] = entry["logprob"]
    return {"row": row, "tokens": reply["usage"]["prompt_tokens"]}


def llama_cpp(job):
    """The rows, or the last words of a process that failed."""
    done = subprocess.run([sys.executable, __file__, "--answer"], input=json.dumps(job), capture_output=True, text=True)
    if done.returncode != 0:
        return None, " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:]) or f"exit {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1]), None


# The original models.


def tokenizer_of(kind, size):
    """A small tokenizer of transformers, trained on few words, with tokens for roles in the usual places."""
    import tokenizers as t
    import transformers

    if kind == "words":
        tokenizer = t.Tokenizer(t.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = t.normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = t.pre_tokenizers.BertPreTokenizer()
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = t.trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=specials)
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.post_processor = t.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        roles = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
    if kind == "pieces":
        tokenizer = t.Tokenizer(t.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        tokenizer.normalizer = t.normalizers.Sequence(
            [t.normalizers.Prepend("\u2581"), t.normalizers.Replace(" ", "\u2581")])
        specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = t.trainers.BpeTrainer(vocab_size=size - 40, show_progress=False, special_tokens=specials)
        tokenizer.train_from_iterator(CORPUS, trainer)
        # Bytes are pieces like others, not added tokens.
        whole = json.loads(tokenizer.to_str())
        whole["added_tokens"] = whole["added_tokens"][:3]
        whole["model"]["merges"] = one_merge_each(whole["model"]["merges"])
        tokenizer = t.Tokenizer.from_str(json.dumps(whole))
        tokenizer.decoder = t.decoders.Sequence(
            [t.decoders.Replace("\u2581", " "), t.decoders.ByteFallback(), t.decoders.Fuse(), t.decoders.Strip(" ", 1, 0)])
        tokenizer.post_processor = t.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        roles = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)
    tokenizer = t.Tokenizer(t.models.BPE())
    tokenizer.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = t.decoders.ByteLevel()
    trainer = t.trainers.BpeTrainer(vocab_size=size - 40, show_progress=False, special_tokens=["<|endoftext|>"],
                                    initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def one_merge_each(merges):
    """Without the merges that result in a piece a second time: scores of pieces say one rank for each."""
    seen = set()
    return [pair for pair in merges if not ("".join(pair) in seen or seen.add("".join(pair)))]


def make(case, folder):
    """Writes the original model; returns it."""
    import torch
    import transformers

    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
    import tiny

    encoder = case.config.model_type == "bert"
    head = transformers.AutoModel if encoder else transformers.AutoModelForCausalLM
    generator = torch.Generator().manual_seed(SEED)
    model = tiny.build(head, case.config, generator)
    # Its progress bar would fill the table.
    with contextlib.redirect_stderr(io.StringIO()):
        model.save_pretrained(folder)
    tokenizer = tokenizer_of(case.vocabulary, case.config.vocab_size)
    tokenizer.save_pretrained(folder)
    if case.fields:
        config = json.loads((folder / "config.json").read_text()) | case.fields
        (folder / "config.json").write_text(json.dumps(config))
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return model, tokenizer


def expected(model, prompt, case):
    """Log-probabilities after a prompt, or the vector of an encoder."""
    import copy
    import torch

    with torch.inference_mode():
        # Dynamic positions remember the longest sequence.
        out = copy.deepcopy(model)(input_ids=torch.tensor([prompt]))
    if "logits" in out:
        return torch.log_softmax(out.logits[0, -1].double(), -1).numpy()
    return pooled(out.last_hidden_state[0].double().numpy(), case)


def pooled(states, case):
    modes = case.files.get("1_Pooling/config.json", {})
    row = states[0] if modes.get("pooling_mode_cls_token") else states.mean(0)
    return row / np.linalg.norm(row)


def own(program, path, prompts, case):
    """The same by linwright, from the exported file."""
    requests = "".join(json.dumps({"folder": str(path), "tokens": prompt}) + "\n" for prompt in prompts)
    done = subprocess.run([program], input=requests, capture_output=True, text=True, check=True)
    rows = []
    for line in done.stdout.splitlines():
        reply = json.loads(line)
        if "refused" in reply:
            return reply["refused"]
        states = np.array(reply["rows"], dtype=np.float64)
        if case.config.model_type == "bert":
            rows.append(pooled(states, case))
        else:
            last = states[-1] - states[-1].max()
            rows.append(last - np.log(np.exp(last).sum()))
    return rows


# The comparison.


def largest(found, wanted):
    """The largest difference; NaN where a number is absent."""
    pairs = list(zip(found, wanted, strict=True))
    return max(float(np.abs(np.array(a, dtype=float) - b).max()) for a, b in pairs)


def check(case, args):
    """What to print, and whether it is as it must be."""
    folder = args.work / case.name
    shutil.rmtree(folder, ignore_errors=True)
    original = folder / "original"
    original.mkdir(parents=True)
    model, tokenizer = make(case, original)
    words = [str(args.linwright), "export", str(original), "--form", "gguf", "--dtype", "f32", "-o", str(folder / "gguf")]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0 or case.refused:
        said = done.stderr.strip().replace("\n", " ")
        right = done.returncode != 0 and case.refused is not None and case.refused in said
        wanted = f" (expected a refusal that names {case.refused})" if case.refused else " (expected a file)"
        return f"{'refused' if done.returncode else 'WRITTEN'}: {said[:230]}{'' if right else wanted}", right
    failures = []
    notes = [line for line in done.stderr.splitlines() if "llama.cpp" in line and "pooler" not in line]
    if len(notes) != (case.noted is not None) or case.noted and case.noted not in notes[0]:
        failures.append(f"NOTES {notes}")
    return compare(case, folder / "gguf" / "model-F32.gguf", model, tokenizer, failures, args)


def compare(case, path, model, tokenizer, failures, args):
    encoder = case.config.model_type == "bert"
    numbers = np.random.default_rng(SEED)
    fresh = [[numbers.integers(3, 250, length).tolist() for length in lengths] for _, lengths in case.runs]
    runs = [[context, prompts] for (context, _), prompts in zip(case.runs, fresh, strict=True)]
    text = tokenizer(TEXT)["input_ids"]
    first = [*runs[0][1]] + ([] if len(text) > max(case.runs[0][1]) else [TEXT])
    job = dict(path=str(path), encoder=encoder, pooling=not case.files, vocab=case.config.vocab_size,
               letter=tokenizer.convert_tokens_to_ids("a"),
               runs=[[runs[0][0], first], *runs[1:]])
    prompts = [text if prompt == TEXT else prompt for _, prompts in job["runs"] for prompt in prompts]
    wanted = [expected(model, prompt, case) for prompt in prompts]
    mine = own(args.logits, path, prompts, case)
    if isinstance(mine, str):
        failures.append(f"OURS {mine}")
        mine = float("nan")
    else:
        mine = largest(mine, wanted)
        if not mine < TOLERANCE_OWN:
            failures.append("OURS DIFFERS")
    rows, failed = llama_cpp(job)
    if failed:
        return f"{mine:9.1e} {'':>9} {'; '.join([*failures, 'LLAMA.CPP FAILS ' + failed])}", False
    counts = [len(prompt) for prompt in prompts]
    theirs = [row["row"] for row in rows]
    if [row["tokens"] for row in rows] != counts:
        failures.append(f"TOKENS {[row['tokens'] for row in rows]} for {counts}")
    theirs = [largest([a], [b]) for a, b in zip(theirs, wanted, strict=True)]
    gelu = "gelu" in str(getattr(case.config, "hidden_act", "")) + str(getattr(case.config, "activation_function", ""))
    gelu |= "gelu" in str(getattr(case.config, "hidden_activation", ""))
    limit = case.allowed[1] if case.allowed else llama_cpp_cases.GELU if gelu else TOLERANCE
    if not max(theirs) < limit:
        failures.append(f"DIFFERS {['%.1e' % off for off in theirs]} for {counts} tokens")
    verdict = "; ".join(failures) or (f"equal: {case.allowed[0]}" if case.allowed else "equal")
    return f"{mine:9.1e} {max(theirs):9.1e} {verdict}", not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, help="folder for models and exports")
    parser.add_argument("--linwright", type=pathlib.Path, default="target/debug/linwright")
    parser.add_argument("--logits", type=pathlib.Path, default="target/debug/examples/logits",
                        help="the example of linwright-model")
    parser.add_argument("--only", default="", help="cases whose name has this part")
    parser.add_argument("--check-packages", action="store_true", help="look for packages only")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check_packages:
        return
    if args.answer:
        print(json.dumps(answer(json.load(sys.stdin))))
        return
    if args.work is None:
        parser.error("name a folder with --work")
    import torch
    import transformers
    import xllamacpp

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, xllamacpp {xllamacpp.__version__}")
    print(f"{'model':34} {'linwright':>9} {'llama.cpp':>9}")
    good, count = True, 0
    for case in llama_cpp_cases.cases():
        if args.only in case.name:
            line, right = check(case, args)
            print(f"{case.name:34} {line}", flush=True)
            good, count = good & right, count + 1
    print(f"{count} models: {'as they must be' if good else 'WRONG'}")
    sys.exit(0 if good and count else 1)


if __name__ == "__main__":
    main()
