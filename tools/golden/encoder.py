"""Makes the golden vectors of the encoder: tiny random checkpoints, their states and logits.

Run from the root of the repository, in an environment with torch and transformers:

    python tools/golden/encoder.py testdata/encoder [STEM ...]

Each set is `<stem>.safetensors` (the checkpoint as transformers names its tensors, f32) and
`<stem>.json`:

- `config`: the config.json that transformers writes;
- `sequences`, for families with token types `token_types` (pairs: zeros, then ones), and `positions`
  (of each sequence, those that are kept);
- `states`: the last hidden states at these positions;
- `logits`: those of the masked language model there, where the checkpoint has its head;
- `pooled`: tanh of the pooler at the first token, where the checkpoint has one;
- `embeddings`: the mean of the states of all tokens, divided by its length, as sentence encoders
  give it (pooling by mean, then normalisation);
- `padded`: how far the states of one batch, padded on the right (and on the left, where positions
  follow the tokens), are from those of the sequences alone; `f32`: how far those that transformers
  computes in f32 are. Both are relative to the largest state.

Everything is computed with eager attention from the f32 weights in a model converted to f64, and
rounded to seven digits.
"""

import copy
import dataclasses
import pathlib
import sys

import torch
import transformers as hf

import tiny

PADDING_TOLERANCE = 1e-9
NOTICEABLE = 1.5e-4
TINY = dict(vocab_size=44, hidden_size=24, intermediate_size=26, num_hidden_layers=2,
            num_attention_heads=3)
DISTIL = dict(vocab_size=44, dim=24, hidden_dim=28, n_layers=2, n_heads=3)
#: A bias of the keys adds the same to all scores of a query. No vector here is made of the sentence
#: pair head. An untied head adds the bias of its own decoder, not the shared one.
WITHOUT_INFLUENCE = ("key.bias", "k_lin.bias", "seq_relationship.weight", "seq_relationship.bias")
WITHOUT_INFLUENCE_UNTIED = ("cls.predictions.bias",)


@dataclasses.dataclass
class Encoder:
    """A tiny encoder to make golden vectors of."""

    stem: str
    head: type
    config: hf.PreTrainedConfig
    #: Lengths of the sequences; two numbers make a pair.
    lengths: tuple
    #: Changes of the configuration that the stored numbers must notice.
    twists: tuple = ()
    #: Files from before 2019 call weight and bias of a LayerNorm gamma and beta.
    old_norm_names: bool = False


def encoders():
    masked, plain, both = hf.AutoModelForMaskedLM, hf.AutoModel, hf.AutoModelForPreTraining
    bert, roberta, multi, distil = (
        hf.BertConfig, hf.RobertaConfig, hf.XLMRobertaConfig, hf.DistilBertConfig)
    yield Encoder("bert-masked", masked, bert(**TINY, max_position_embeddings=32),
                  ((17,), (1,), (9, 12)), (dict(hidden_act="gelu_new"), dict(layer_norm_eps=0.01)))
    yield Encoder("bert-pretraining-old-names", both, bert(
        **TINY | dict(hidden_size=20, num_attention_heads=2), max_position_embeddings=32,
        layer_norm_eps=0.001), ((5, 6), (12,)), (dict(layer_norm_eps=1e-12),), old_norm_names=True)
    yield Encoder("bert-untied-relu", masked, bert(
        **TINY | dict(num_hidden_layers=1), max_position_embeddings=32, tie_word_embeddings=False,
        hidden_act="relu", type_vocab_size=3), ((14,), (4, 7)), (dict(hidden_act="gelu"),))
    # Six narrow heads of four, as the twelve of MiniLM are narrow, and no prefix in the names.
    yield Encoder("minilm-shaped", plain, bert(
        **TINY | dict(num_attention_heads=6), max_position_embeddings=40),
        ((23,), (2,), (8,), (31,)), (dict(num_attention_heads=3),))
    yield Encoder("roberta-masked", masked, roberta(
        **TINY, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5),
        ((40,), (1,), (13,)), (dict(pad_token_id=0),))
    yield Encoder("roberta-base", plain, roberta(
        **TINY | dict(hidden_size=20, num_attention_heads=5), max_position_embeddings=36,
        type_vocab_size=1, pad_token_id=3), ((16,), (7,)), (dict(pad_token_id=1),))
    yield Encoder("xlm-roberta-masked", masked, multi(
        **TINY, max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5),
        ((24,), (3,)), (dict(pad_token_id=2),))
    yield Encoder("distilbert-masked", masked, distil(**DISTIL, max_position_embeddings=40),
                  ((21,), (1,), (30,)), (dict(activation="relu"),))
    yield Encoder("distilbert-base-sinusoidal", plain, distil(
        **DISTIL | dict(n_heads=4), max_position_embeddings=32, sinusoidal_pos_embds=True,
        activation="relu"), ((18,), (6,)), (dict(activation="gelu"),))


def run(model, tokens, types, mask=None):
    """States, logits (or None) and pooled first token (or None) of a batch."""
    arguments = dict(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
    if types is not None:
        arguments["token_type_ids"] = types
    out = model(**arguments)
    pooler = getattr(model.base_model, "pooler", None)
    states = out.hidden_states[-1]
    pooled = None if pooler is None else pooler(states)
    logits = out.get("prediction_logits", out.get("logits"))
    return states, logits, pooled


def alone(model, tokens, types):
    with torch.no_grad():
        results = run(model, tokens[None], None if types is None else types[None])
    return [None if result is None else result[0].double() for result in results]


def padded_gaps(model, sequences, types, expected):
    """Largest differences of one padded batch from the sequences alone."""
    follow = model.config.model_type in ("roberta", "xlm-roberta")
    longest, gaps = max(len(tokens) for tokens in sequences), {}
    for side in ("right", "left") if follow else ("right",):
        ids = torch.full((len(sequences), longest), model.config.pad_token_id)
        mask, kinds = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, tokens in enumerate(sequences):
            span = slice(len(tokens)) if side == "right" else slice(longest - len(tokens), None)
            ids[row, span], mask[row, span] = tokens, 1
            if types is not None:
                kinds[row, span] = types[row]
        with torch.no_grad():
            states = run(model, ids, None if types is None else kinds, mask)[0]
        worst = max(tiny.difference(states[row, mask[row] == 1], expected[row])
                    for row in range(len(sequences)))
        assert worst < PADDING_TOLERANCE, f"padded {side}: off by {worst:e}"
        gaps[side] = float(f"{worst:.1e}")
    return gaps


def embedding(states):
    mean = states.mean(0)
    return mean / mean.norm()


def rename_norms(path):
    """Calls the parameters of LayerNorm as the first files of BERT did."""
    from safetensors.torch import load_file, save_file

    tensors = {name.replace("LayerNorm.weight", "LayerNorm.gamma")
               .replace("LayerNorm.bias", "LayerNorm.beta"): tensor
               for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)


def make(chosen, folder):
    generator = torch.Generator().manual_seed(tiny.SEED)
    single = tiny.build(chosen.head, chosen.config, generator)
    config, weights = single.config, folder / f"{chosen.stem}.safetensors"
    written = tiny.save(single, weights)
    if chosen.old_norm_names:
        rename_norms(weights)
    # No token is the padding: RoBERTa gives that no position of its own.
    sequences = [torch.randint(4, config.vocab_size, (sum(pair),), generator=generator)
                 for pair in chosen.lengths]
    types = None
    if config.model_type == "bert":
        types = [torch.cat([torch.full((n,), kind) for kind, n in enumerate(pair)])
                 for pair in chosen.lengths]
    each = types or [None] * len(sequences)
    model = copy.deepcopy(single).double()
    probe = copy.deepcopy(model)
    results = [run(probe, s[None], None if t is None else t[None]) for s, t in zip(sequences, each)]
    loss = sum(part.square().mean() for found in results for part in found if part is not None)
    untied = () if config.tie_word_embeddings else WITHOUT_INFLUENCE_UNTIED
    tiny.every_parameter_matters(probe, loss, WITHOUT_INFLUENCE + untied)
    results = [alone(model, s, t) for s, t in zip(sequences, each)]
    states = [found[0] for found in results]
    positions = [tiny.chosen_positions(len(tokens)) for tokens in sequences]
    for changes in chosen.twists:
        other = tiny.twisted(single, config, changes)
        moved = max(tiny.difference(alone(other, s, t)[0][kept], x[kept])
                    for s, t, x, kept in zip(sequences, each, states, positions))
        assert moved > NOTICEABLE, f"{chosen.stem}: {changes} moves the states by {moved:e}"
    record = tiny.header("tools/golden/encoder.py", written)
    record["f32"] = float("{:.1e}".format(max(
        tiny.difference(alone(single, s, t)[0], x) for s, t, x in zip(sequences, each, states))))
    record["padded"] = padded_gaps(model, sequences, types, states)
    record["sequences"] = [tokens.tolist() for tokens in sequences]
    if types is not None:
        record["token_types"] = [kinds.tolist() for kinds in types]
    record["positions"] = positions
    for index, name in enumerate(("states", "logits")):
        if results[0][index] is not None:
            record[name] = [tiny.rounded(r[index][kept]) for r, kept in zip(results, positions)]
    if results[0][2] is not None:
        record["pooled"] = [tiny.rounded(found[2]) for found in results]
    record["embeddings"] = [tiny.rounded(embedding(x)) for x in states]
    tiny.write(folder / f"{chosen.stem}.json", record)
    size = sum((folder / f"{chosen.stem}.{end}").stat().st_size for end in ("json", "safetensors"))
    print(f"{chosen.stem:32} {size:6} bytes, f32 {record['f32']:.0e}, padded {record['padded']}, "
          f"{[name for name in ('logits', 'pooled') if name in record]}")


def main(folder, stems):
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    for chosen in encoders():
        if not stems or chosen.stem in stems:
            make(chosen, folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), set(sys.argv[2:]))
