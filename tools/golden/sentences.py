"""Makes sentence encoders with modules of every kind that is read, and the vectors that
sentence-transformers makes of a few texts.

Run from the root of the repository, in an environment with torch, transformers, tokenizers and
sentence-transformers (6.2.0):

    python tools/golden/sentences.py testdata/sentence

`base/` is a tiny random BERT. Each `<stem>.json` holds the files that make it an encoder, as text or,
for weights, in hexadecimal, and for every text its vector in f32. Reading is strict on our side, so
each file is as sentence-transformers writes it, except where its older versions wrote another one.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import sentence_transformers
import torch
import transformers
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

SEED = 20261127
WIDTH = 16
WORDS = "a boat the key two apples lantern bell map saw lost by lake in barn at noon near mill ask find".split()
TEXTS = ["a boat by the lake", "Two apples", "lantern", "the bell and the key lost in the barn at noon near the mill",
         "", "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a", "MAP unknown saw"]


def base(folder):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    torch.manual_seed(SEED)
    model = transformers.BertModel(transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=32, initializer_range=0.3))
    tokenizer.model_max_length = 32
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()


def pooled(mode, **more):
    return lambda: [Pooling(WIDTH, pooling_mode=mode, **more)]


def dense(out, activation, bias=True, residual=False):
    torch.manual_seed(SEED + out)
    return Dense(WIDTH, out, bias=bias, activation_function=activation, use_residual=residual)


def layer_norm():
    module = LayerNorm(WIDTH)
    torch.manual_seed(SEED)
    torch.nn.init.normal_(module.norm.weight)
    torch.nn.init.normal_(module.norm.bias)
    return module


#: Name, modules after the transformer, and options of the encoder.
VARIANTS = {
    **{mode: (pooled(mode), {}) for mode in Pooling.POOLING_MODES},
    "joined": (pooled(("lasttoken", "cls", "weightedmean")), {}),
    "dense-tanh-normalised": (lambda: [Pooling(WIDTH, "mean"), dense(12, torch.nn.Tanh()), Normalize()], {}),
    "dense-plain": (lambda: [Pooling(WIDTH, "cls"), dense(20, torch.nn.Identity(), bias=False)], {}),
    "dense-gelu-residual": (lambda: [Pooling(WIDTH, "mean"), dense(16, torch.nn.GELU(), residual=True)], {}),
    "dense-relu-projected": (lambda: [Pooling(WIDTH, "mean"), dense(8, torch.nn.ReLU(), residual=True)], {}),
    "layer-norm": (lambda: [Pooling(WIDTH, "mean"), layer_norm()], {}),
    "normalised-tokens": (lambda: [Normalize(module_input_name="token_embeddings"), Pooling(WIDTH, "mean")], {}),
    "short": (pooled("mean"), {"max_length": 6}),
    "short-old": (pooled("lasttoken"), {"old_max_length": 6}),
    "prompt": (pooled("mean"), {"prompts": {"q": "ask the ", "p": "x"}, "default_prompt_name": "q"}),
    "prompt-not-asked-for": (pooled("mean"), {"prompts": {"q": "ask the "}}),
    "truncated": (pooled("mean"), {"truncate_dim": 5}),
    **{f"prompt-left-out-{mode}": (pooled(mode, include_prompt=False),
                                   {"prompts": {"q": "ask the "}, "default_prompt_name": "q"})
       for mode in Pooling.POOLING_MODES},
    "prompt-left-out-short": (pooled("mean", include_prompt=False), {
        "prompts": {"q": "ask the boat "}, "default_prompt_name": "q", "max_length": 5}),
    "old-fields": (pooled(("cls", "mean")), {"old_fields": True}),
}


def save(name, folder, out):
    make, options = VARIANTS[name]
    more = {key: options[key] for key in ("prompts", "default_prompt_name", "truncate_dim") if key in options}
    transformer = Transformer(str(out / "base"))
    if "max_length" in options:
        transformer.max_seq_length = options["max_length"]
    model = sentence_transformers.SentenceTransformer(modules=[transformer, *make()], device="cpu", **more)
    model.save(str(folder), create_model_card=False)
    if "old_max_length" in options:
        length = options["old_max_length"]
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length, "do_lower_case": False}))
    if "old_fields" in options:
        fields = {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True,
                  "pooling_mode_max_tokens": False, "include_prompt": True}
        (folder / "1_Pooling/config.json").write_text(json.dumps(fields))


def main():
    out = pathlib.Path(sys.argv[1])
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    shutil.rmtree(out, ignore_errors=True)
    (out / "base").mkdir(parents=True)
    base(out / "base")
    same = {path.name: path.read_bytes() for path in (out / "base").iterdir()}
    for name in VARIANTS:
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place) / "encoder"
            save(name, folder, out)
            files = {}
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                relative, content = path.relative_to(folder).as_posix(), path.read_bytes()
                if same.get(relative) == content or relative in ("config.json", "model.safetensors"):
                    continue
                binary = relative.endswith(".safetensors")
                files[relative] = {"hex": content.hex()} if binary else {"text": content.decode()}
            model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
            vectors = model.encode(TEXTS, convert_to_numpy=True)
            record = {"sentence_transformers": sentence_transformers.__version__, "texts": TEXTS, "files": files,
                      "vectors": [[float(f"{value:.7g}") for value in vector] for vector in vectors.tolist()]}
            (out / f"{name}.json").write_text(json.dumps(record) + "\n")
            print(name, vectors.shape, sorted(files))


if __name__ == "__main__":
    main()
