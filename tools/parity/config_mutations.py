"""Changes configurations at random and compares what comes out with transformers.

    cargo build -p linwright-model --example logits
    python tools/parity/config_mutations.py --count 2000 --seed 1

Every base is the `config` or `older_config` of a tiny model of `testdata/decoder` or `testdata/encoder`.
A mutation sets, removes or empties one to four fields, taken from all families alike, also inside
`rope_parameters`; or it changes what is stored: an output matrix beside the embedding that the
configuration ties to it, or none at all. Weights are made for the changed configuration, so that shapes
fit, or for the unchanged one, as when a user edits a file. Both programs then load the same folder and
compute the same tokens in f32.

It is fine if both give the same numbers, and if Linwright refuses. Numbers that differ by more than
TOLERANCE are a silent difference; one of them ends the script with 1. Where transformers refuses, or
fills in random numbers for tensors that the file lacks, there is nothing to compare with; these are
counted, and `--verbose` lists those that Linwright accepts. The same seed makes the same mutations;
`--only INDEX` repeats one.

`testdata/config_changes.json` holds what this search has found, as cases that every test run repeats;
`tools/golden/config_changes.py` writes it.
"""

import argparse
import collections
import copy
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/golden"))

import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import tiny  # noqa: E402

#: Largest difference as a share of the largest number. Both sides compute in f32.
TOLERANCE = 1e-4
#: Folders that are compared at once.
CHUNK = 250
#: Transformers has no class for the first; the other stores its norms under names of 2018.
LEFT_OUT = ("decilm-blocks", "bert-pretraining-old-names")

KINDS = ["full_attention", "sliding_attention"]
ROPES = [
    {},
    {"rope_type": "default"},
    {"rope_type": "default", "rope_theta": 300.0},
    {"rope_theta": 700.0},
    {"type": "linear", "factor": 3.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 200.0},
    {"rope_type": "linear", "type": "dynamic", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"type": "yarn", "factor": 3.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 20, "beta_fast": 8,
     "beta_slow": 2, "attention_factor": 1.2},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.5, "truncate": False},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 16},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"type": "longrope", "short_factor": [1.0, 1.2, 1.4], "long_factor": [2.0, 3.0, 4.0]},
    {"rope_type": "longrope", "short_factor": [1.0, 1.2, 1.4, 1.6], "factor": 3.0,
     "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": 16},
    {"rope_type": "longrope", "short_factor": [1.0, 1.2, 1.4], "factor": 3.0,
     "long_factor": [2.0, 3.0, 4.0], "original_max_position_embeddings": 16, "attention_factor": 1.1},
    {"type": "su", "short_factor": [1.0, 1.2, 1.4], "long_factor": [2.0, 3.0, 4.0]},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    {"rope_type": "spiral", "factor": 2.0},
]
#: Keys that are put into a rotary object, or taken out of it.
ROPE_KEYS = {
    "rope_theta": [150.0, 10000.0, 1000000],
    "partial_rotary_factor": [0.5, 0.25, 1.0, 0.75],
    "factor": [1.0, 2.0, 5.0, 0.5],
    "original_max_position_embeddings": [10, 30, 96],
    "attention_factor": [0.9, 1.5],
    "rope_type": ["default", "linear", "dynamic", "yarn", "llama3"],
    "type": ["default", "linear", "yarn"],
    "beta_fast": [4, 64], "beta_slow": [0.5, 2], "mscale": [0.8], "mscale_all_dim": [0.6],
    "truncate": [True, False],
    "high_freq_factor": [8.0], "low_freq_factor": [0.5],
    "finetuned": [True], "rope_interleaved": [True],
}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2",
               "silu", "swish", "tanh", "gelu_10", "gelu_python", "mish", "linear", "laplace"]
#: Fields and values. Some families know them, most do not.
FIELDS = {
    "vocab_size": [40, 48],
    "hidden_size": [24, 16], "n_embd": [24, 16], "dim": [24, 16],
    "intermediate_size": [20, 36], "n_inner": [20, 36], "ffn_dim": [20, 36], "hidden_dim": [20, 36],
    "num_hidden_layers": [1, 2, 3], "n_layer": [1, 2], "n_layers": [1, 2],
    "num_attention_heads": [2, 4, 8], "n_head": [2, 4], "n_heads": [2, 4],
    "num_key_value_heads": [1, 2, 4], "num_kv_heads": [2], "multi_query": [True],
    "head_dim": [4, 6, 8, 12], "kv_channels": [8],
    "hidden_act": ACTIVATIONS, "hidden_activation": ACTIVATIONS, "activation": ACTIVATIONS,
    "activation_function": ACTIVATIONS,
    "max_position_embeddings": [64, 96, 20], "n_positions": [64, 20], "n_ctx": [20],
    "rms_norm_eps": [0.1, 1e-5], "layer_norm_eps": [0.1, 1e-5], "layer_norm_epsilon": [0.1, 1e-5],
    "norm_eps": [0.1], "norm_epsilon": [0.1],
    "tie_word_embeddings": [True, False],
    "attention_bias": [True, False], "mlp_bias": [True, False], "use_qkv_bias": [True, False],
    "use_bias": [True, False], "enable_bias": [True, False], "bias": [True, False],
    "qkv_bias": [True, False], "lm_head_bias": [True],
    "rope_theta": [100.0, 500.0, 10000, 1000000.0], "rotary_emb_base": [100.0, 500.0],
    "rotary_pct": [0.25, 0.5, 1.0], "rope_pct": [0.5], "partial_rotary_factor": [0.25, 0.5, 0.75, 1.0],
    "rotary_dim": [2, 4, 6], "rope_local_base_freq": [100.0, 5000.0], "rope_interleaved": [True, False],
    "rotary_base": [300.0], "original_max_position_embeddings": [12, 24],
    "clip_qkv": [0.5, 2.0], "attn_logit_softcapping": [2.0, 30.0], "final_logit_softcapping": [1.0, 5.0],
    "logit_softcapping": [1.0], "query_pre_attn_scalar": [2, 9, 4.5], "attention_multiplier": [0.3],
    "scale_attn_weights": [True, False], "scale_attn_by_inverse_layer_idx": [True, False],
    "reorder_and_upcast_attn": [True, False],
    "sliding_window": [3, 6, 100, 4096], "use_sliding_window": [True, False], "max_window_layers": [0, 1, 2],
    "sliding_window_pattern": [1, 2, 3, 6], "_sliding_window_pattern": [2], "attention_window": [4],
    "layer_types": [KINDS, KINDS[::-1], [KINDS[0]] * 2, [KINDS[1]] * 2, [KINDS[1]], [KINDS[0]] * 3,
                    ["chunked_attention"] * 2],
    "attention_chunk_size": [4], "window_size": [4],
    "no_rope_layers": [[0, 1], [1, 0], [1, 1], [0, 0], [1, 0, 1], []], "no_rope_layer_interval": [1, 2, 4],
    "use_bidirectional_attention": [True, False], "is_causal": [True, False], "is_decoder": [True, False],
    "add_cross_attention": [True, False], "is_encoder_decoder": [False, True],
    "use_parallel_residual": [True, False], "parallel_attn": [True], "new_decoder_architecture": [True],
    "qk_layernorm": [True, False], "use_qk_norm": [True], "qk_norm": [True],
    "do_layer_norm_before": [True, False], "_remove_final_layer_norm": [True, False],
    "layer_norm_elementwise_affine": [True, False], "word_embed_proj_dim": [16, 24],
    "embedding_size": [16], "type_vocab_size": [1, 2, 3], "pad_token_id": [0, 1, 3, 39, -1, 48],
    "bos_token_id": [0, 3, -1, 48, 99999], "eos_token_id": [1, [1, 2], -1, 48, [1, 99999], [1, -1], []],
    "sep_token_id": [-1, 48], "decoder_start_token_id": [-1, 48], "suppress_tokens": [[1, 99999]],
    "position_embedding_type": ["absolute", "relative_key", "rotary"], "sinusoidal_pos_embds": [True, False],
    "alibi": [True], "use_alibi": [True], "chunk_size_feed_forward": [0, 4],
    "embedding_multiplier": [2.0], "residual_multiplier": [0.5], "logits_scaling": [4.0], "logit_scale": [0.2],
    "scale_embedding": [True], "normalize_embedding": [True], "scale_emb": [3.0],
    "layerdrop": [0.5], "attention_dropout": [0.5], "resid_pdrop": [0.5], "hidden_dropout": [0.5],
    "pretraining_tp": [1, 2], "initializer_range": [0.5], "use_cache": [False], "output_attentions": [True],
    "output_hidden_states": [True], "return_dict": [True], "torch_dtype": ["float32", "bfloat16"],
    "dtype": ["float32"], "num_labels": [3], "problem_type": ["regression"],
    "attn_implementation": ["sdpa", "eager"], "_attn_implementation": ["sdpa"],
    "per_layer_config": [{"0": {"intermediate_size": 12}}, {"1": {"rms_norm_eps": 0.3}},
                         {"0": {"sliding_window": 3}}, {}],
    "num_experts": [2], "num_local_experts": [2], "quantization_config": [{}], "name_or_path": ["x"],
    "model_type": ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3",
                   "stablelm", "smollm3", "olmo", "olmo2"],
    "attention_type": ["x"], "unk_field": [1], "temperature": [0.5], "max_length": [3],
    "no_repeat_ngram_size": [2],
}
#: Rotary objects and the fields that they stand in.
ROTARY = ("rope_parameters", "rope_scaling")
#: Sizes stay: Linwright has no defaults for them, and those of transformers are large.
KEPT = {"architectures", "model_type", "vocab_size", "hidden_size", "n_embd", "dim", "intermediate_size",
        "ffn_dim", "hidden_dim", "num_hidden_layers", "n_layer", "n_layers", "num_attention_heads",
        "n_head", "n_heads", "max_position_embeddings", "n_positions"}
#: Largest size: defaults make models of gigabytes.
LARGEST = 1000
#: Values of a wrong type.
ODD = [None, 0, -1, 1.0, 2.5, "", "2", True, [], {}, [1], "null"]
#: Names of output matrices.
HEADS = ("lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight", "lm_head.decoder.weight",
         "vocab_projector.weight")


def bases():
    for folder in ("decoder", "encoder"):
        for path in sorted((ROOT / "testdata" / folder).glob("*.json")):
            if path.stem in LEFT_OUT:
                continue
            record = json.loads(path.read_text())
            for name in ("config", "older_config"):
                if name in record:
                    yield path.stem, record[name]


def rotary_change(rng, config, done):
    """Another rotary object, flat or one for each kind of layer, or a changed key of the one there."""
    name = rng.choice(ROTARY)
    there = config.get(name)
    if isinstance(there, dict) and rng.random() < 0.5:
        inner = [value for value in there.values() if isinstance(value, dict)]
        part = rng.choice(inner) if inner and rng.random() < 0.8 else there
        key = rng.choice(sorted(ROPE_KEYS))
        if part.get(key) is not None and rng.random() < 0.3:
            part.pop(key)
            done.append(f"{name} without {key}")
        else:
            part[key] = rng.choice(ROPE_KEYS[key])
            done.append(f"{name}.{key} = {part[key]}")
        return
    one = lambda: copy.deepcopy(rng.choice(ROPES))
    kinds = rng.sample(KINDS, rng.randint(1, 2))
    value = one() if rng.random() < 0.65 else {kind: one() for kind in kinds}
    if rng.random() < 0.1:
        value |= one()
    if rng.random() < 0.1:
        config.pop(next(other for other in ROTARY if other != name), None)
    config[name] = value
    done.append(f"{name} = {json.dumps(value)}")


def mutate(rng, config):
    """The changed configuration and what was done, in words."""
    config, done = copy.deepcopy(config), []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        roll = rng.random()
        if roll < 0.2:
            rotary_change(rng, config, done)
        elif roll < 0.3:
            name = rng.choice(sorted(set(config) - KEPT))
            config.pop(name)
            done.append(f"without {name}")
        elif roll < 0.36:
            name = rng.choice(sorted(set(config) - KEPT))
            config[name] = rng.choice(ODD)
            done.append(f"{name} = {json.dumps(config[name])}")
        elif roll < 0.65:
            known = sorted(set(config) & set(FIELDS) - {"model_type"})
            name = rng.choice(known)
            config[name] = copy.deepcopy(rng.choice(FIELDS[name]))
            done.append(f"{name} = {json.dumps(config[name])}")
        else:
            # Other classes would have defaults of gigabytes for sizes that the base calls otherwise.
            names = sorted(FIELDS if "intermediate_size" in config else FIELDS.keys() - {"model_type"})
            name = rng.choice(names)
            config[name] = copy.deepcopy(rng.choice(FIELDS[name]))
            done.append(f"{name} = {json.dumps(config[name])}")
    return config, done


def store(rng, folder, done):
    """Changes what is stored of the output matrix, in one of ten files."""
    roll = rng.random()
    if roll > 0.1:
        return
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    heads = [name for name in HEADS if name in tensors]
    if heads:
        tensors.pop(heads[0])
        done.append(f"no {heads[0]}")
    else:
        name = next((name for name in tensors if any(
            part in name for part in ("embed_tokens", "wte", "embed_in", "word_embeddings"))), None)
        if name is None:
            return
        head = {"gpt_neox": HEADS[1], "bert": HEADS[2], "roberta": HEADS[3], "xlm-roberta": HEADS[3],
                "distilbert": HEADS[4]}.get(
            json.loads((folder / "config.json").read_text()).get("model_type"), HEADS[0])
        same = roll < 0.03
        tensors[head] = tensors[name].clone() if same else 0.7 * torch.randn(
            tensors[name].shape, generator=torch.Generator().manual_seed(rng.randint(0, 1 << 30)))
        done.append(f"{head} as the embedding" if same else f"{head} of its own")
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def automatic(architecture):
    if "ForCausalLM" in architecture or "LMHead" in architecture:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModelForMaskedLM if "ForMaskedLM" in architecture else transformers.AutoModel


def read_small(folder):
    """The configuration of a folder, if no default makes a large model of it."""
    read = transformers.AutoConfig.from_pretrained(folder)
    sizes = [getattr(read, name, None) for name in sorted(KEPT)]
    largest = max(size for size in sizes if isinstance(size, int))
    if largest > LARGEST or getattr(read, "head_dim", None) not in (None, *range(300)):
        raise ValueError(f"a size of {largest} by default")
    return read


def make_weights(config, folder, seed):
    """A checkpoint with random weights for a configuration."""
    (folder / "config.json").write_text(json.dumps(config))
    read = read_small(folder)
    read.dtype = torch.float32
    model = automatic(config["architectures"][0]).from_config(read).eval()
    tiny.randomise(model, torch.Generator().manual_seed(seed))
    tiny.save(model, folder / "model.safetensors")
    if (leftover := folder / "generation_config.json").exists():
        leftover.unlink()


def reference(config, folder, tokens):
    """What transformers computes, or why it does not."""
    read_small(folder)
    model, info = automatic(config["architectures"][0]).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    # A bare encoder that is loaded without a pooling layer gets a random one, which nothing here reads.
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    if missing or info["mismatched_keys"]:
        raise ValueError(f"random tensors: {missing[:3]} {list(info['mismatched_keys'])[:3]}")
    with torch.inference_mode():
        out = model.eval()(input_ids=torch.tensor([tokens]))
    return (out.logits if "logits" in out else out.last_hidden_state)[0].float()


def judge(answer, expected):
    """The outcome of one comparison in a word, and how large the difference is."""
    accepts = "rows" in answer
    if isinstance(expected, Exception):
        return ("only transformers refuses" if accepts else "both refuse"), 0.0
    if not accepts:
        return "only linwright refuses", 0.0
    found = torch.tensor(answer["rows"])
    if found.shape != expected.shape:
        return "silent difference", float("inf")
    gap = tiny.difference(found, expected)
    return ("equal" if gap <= TOLERANCE else "silent difference"), gap


def ask(program, jobs):
    requests = "".join(json.dumps({"folder": str(job["folder"]), "tokens": job["tokens"]}) + "\n"
                       for job in jobs)
    run = subprocess.run([program], input=requests, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{program} ended with {run.returncode}: {run.stderr[-2000:]}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def prepare(seed, index, all_bases, work):
    rng = random.Random(f"{seed}/{index}")
    stem, base = rng.choice(all_bases)
    config, done = mutate(rng, base)
    folder = work / f"{seed}-{index}"
    folder.mkdir(parents=True)
    # RoBERTa gives tokens of padding other positions: none of these is one.
    tokens = [rng.randrange(4, 39) for _ in range(rng.choice((9, 26, 45)))]
    job = {"index": index, "stem": stem, "done": done, "folder": folder, "tokens": tokens}
    own = rng.random() < 0.7
    try:
        make_weights(config if own else base, folder, seed * 1000003 + index)
        if not own:
            done.append("weights as before")
    except Exception as error:  # noqa: BLE001 - whatever a class of transformers says
        # Nothing can be made for it: what is loaded are the weights of the unchanged configuration.
        done.append(f"weights as before: transformers makes none ({type(error).__name__})")
        make_weights(base, folder, seed * 1000003 + index)
    (folder / "config.json").write_text(json.dumps(config))
    store(rng, folder, done)
    try:
        job["expected"] = reference(config, folder, tokens)
    except Exception as error:  # noqa: BLE001 - any refusal counts as one
        job["expected"] = error
    return job


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target/debug/examples/logits"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only", type=int, help="repeat one mutation")
    parser.add_argument("--verbose", action="store_true", help="list what only one side refuses")
    options = parser.parse_args()
    # A large model is no reason to take the memory of the machine.
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    all_bases = list(bases())
    indices = [options.only] if options.only is not None else list(range(options.count))
    counts = collections.Counter()
    work = pathlib.Path(tempfile.mkdtemp())
    for start in range(0, len(indices), CHUNK):
        jobs = [prepare(options.seed, i, all_bases, work) for i in indices[start:start + CHUNK]]
        for job, answer in zip(jobs, ask(options.program, jobs), strict=True):
            outcome, gap = judge(answer, job["expected"])
            counts[outcome] += 1
            said = answer.get("refused", "") if outcome.endswith("linwright refuses") else job["expected"]
            listed = options.verbose and outcome.startswith("only")
            if outcome == "silent difference" or listed or options.only is not None:
                said = f"off by {gap:.1e}" if outcome == "silent difference" else str(said)[:300]
                print(f"{job['index']} {outcome}: {job['stem']}: {'; '.join(job['done'])}: {said}",
                      flush=True)
            shutil.rmtree(job["folder"])
    shutil.rmtree(work)
    total = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"seed {options.seed}: {len(indices)} mutations, {len(all_bases)} bases, transformers "
          f"{transformers.__version__}: {total}")
    return 1 if counts["silent difference"] else 0


if __name__ == "__main__":
    sys.exit(main())
