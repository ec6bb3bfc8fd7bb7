"""Makes the golden vectors of the decoder: tiny random checkpoints and their logits.

Run from the root of the repository, in an environment with torch and transformers:

    python tools/golden/decoder.py testdata/decoder [STEM ...]

Each set is `<stem>.safetensors` (the checkpoint as transformers names its tensors, f32) and
`<stem>.json`:

- `config`: the config.json that transformers writes; `older_config`: the same model as older
  versions wrote it (rope_theta, rope_scaling, no field that equals its default);
- `sequences`, `positions` (of each sequence, those that are kept) and `logits` at these positions;
- `greedy`: prompts and the 24 tokens after them, with the smallest gap between the two largest
  logits that occurred (at least GAP, so that no rounding can change a token);
- `padded`: how far the logits of all sequences in one batch, padded left or right, are from those of
  the sequences alone, in f32; positions count the tokens of the mask. Absent where the rotary
  frequencies depend on the longest sequence of the batch;
- `f32`: how far the same logits are from those that transformers computes in f32. Both differences
  are relative to the largest logit.

Logits are computed with eager attention from the f32 weights in a model converted to f64, and
rounded to seven digits. transformers keeps some of it in f32 all the same: the rotary angles, the
softmax (but for GPT-2), RMS norms, the norms of OLMo, the scores of GPT-J. The factor of the
embeddings of Gemma is a buffer, rounded to f32 before it becomes f64.

The rotary frequencies of the kind `dynamic` depend in transformers on the sequences seen before;
here every sequence meets a fresh model.
"""

import copy
import pathlib
import sys

import torch
import transformers

import block_choices
import decoder_sets
import tiny

NEW_TOKENS = 24
GAP = 0.01
#: Prompts tried for a continuation, and the different tokens in one that end the search.
TRIES, ENOUGH_VARIETY = 100, 8
#: Differences that padding may make: it changes the order of sums, and the angles by rounding only.
PADDING_TOLERANCE = 1e-5
#: What a change of the configuration must move the logits by: more than the tolerance of the tests,
#: 1e-4. The two forms of gelu are as close as this.
NOTICEABLE = 1.5e-4
#: Without rotary positions a bias of the keys adds the same to all scores of a query.
WITHOUT_INFLUENCE = {"opt": ("k_proj.bias",), "smollm3": ("layers.0.self_attn.k_proj.bias",)}
#: Files from before the field `rope_parameters` call the kind so.
OLD_KIND = {"linear": "type", "dynamic": "type", "yarn": "type", "longrope": "type",
            "llama3": "rope_type"}


def logits_of(model, tokens):
    """Logits of every position; nothing remains in the model."""
    with torch.no_grad():
        return copy.deepcopy(model)(tokens[None]).logits[0].double()


def padded_gaps(model, sequences):
    """Largest differences of one batch, padded on either side, from the sequences alone.

    In f32: the mask of a f64 model becomes infinite in the f32 softmax, and a row that sees nothing,
    as those of the padding, NaN.
    """
    expected = [logits_of(model, tokens) for tokens in sequences]
    longest, gaps = max(len(tokens) for tokens in sequences), {}
    for side in ("left", "right"):
        ids = torch.zeros(len(sequences), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(sequences):
            span = slice(longest - len(tokens), None) if side == "left" else slice(len(tokens))
            ids[row, span], mask[row, span] = tokens, 1
        places = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            logits = model(ids, attention_mask=mask, position_ids=places).logits
        worst = max(tiny.difference(logits[row, mask[row] == 1], expected[row])
                    for row in range(len(sequences)))
        assert worst < PADDING_TOLERANCE, f"padded {side}: off by {worst:e}"
        gaps[side] = float(f"{worst:.1e}")
    return gaps


def continued(model, prompt):
    """Tokens and smallest gap of the greedy continuation by `generate`, with its cache."""
    out = copy.deepcopy(model).generate(
        prompt[None], attention_mask=torch.ones_like(prompt[None]), max_new_tokens=NEW_TOKENS,
        do_sample=False, eos_token_id=None, pad_token_id=0, output_logits=True,
        return_dict_in_generate=True)
    top = torch.stack(out.logits)[:, 0].topk(2).values
    return out.sequences[0, len(prompt):], (top[:, 0] - top[:, 1]).min().item()


def greedy(model, length, generator):
    """A prompt whose continuation is unambiguous, and of many tokens rather than few."""
    best, variety = None, 0
    for _ in range(TRIES):
        if variety >= ENOUGH_VARIETY:
            break
        prompt = torch.randint(0, model.config.vocab_size, (length,), generator=generator)
        tokens, gap = continued(model, prompt)
        if gap > GAP and len(set(tokens.tolist())) > variety:
            best, variety = (prompt, tokens, gap), len(set(tokens.tolist()))
    assert best is not None, "no unambiguous continuation"
    prompt, tokens, gap = best
    assert len(tokens) == NEW_TOKENS and variety > 3, tokens
    whole = torch.cat([prompt, tokens])
    # What a cache gives must be what a look at the whole sequence gives.
    for end in range(length, len(whole)):
        assert logits_of(model, whole[:end])[-1].argmax() == whole[end], f"token {end}"
    return {"prompt": prompt.tolist(), "tokens": tokens.tolist(), "gap": float(f"{gap:.3g}")}


def older(config, written):
    """The config.json of an older version, checked to mean the same."""
    defaults = type(config)().to_dict()
    kept = {name: value for name, value in written.items()
            if name in ("model_type", "architectures") or defaults.get(name, ...) != value}
    kept["torch_dtype"] = kept.pop("dtype")
    for name in ("transformers_version", "_sliding_window_pattern"):
        kept.pop(name, None)
    ropes = kept.pop("rope_parameters", None) or {}
    neox = config.model_type == "gpt_neox"
    full = dict(ropes.get("full_attention", ropes))
    if "sliding_attention" in ropes:
        kept["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
    if full:
        kept["rotary_emb_base" if neox else "rope_theta"] = full.pop("rope_theta")
        if "partial_rotary_factor" in full:
            kept["rotary_pct" if neox else "partial_rotary_factor"] = full.pop(
                "partial_rotary_factor")
        kind = full.pop("rope_type")
        if "original_max_position_embeddings" in kept:
            full.pop("original_max_position_embeddings", None)
        # Gemma 3 never knew the older name.
        name = "rope_type" if "sliding_attention" in ropes else OLD_KIND.get(kind)
        kept["rope_scaling"] = None if kind == "default" else {name: kind} | full
    without_layers = {name: value for name, value in kept.items() if name != "layer_types"}
    if meaning(config, without_layers).get("layer_types") == written.get("layer_types"):
        kept = without_layers
    found, expected = meaning(config, kept), meaning(config, written)
    assert found == expected, {k: (v, expected.get(k)) for k, v in found.items()
                               if expected.get(k) != v}
    return kept


def meaning(config, written):
    """The configuration that transformers reads from a config.json, all fields filled in."""
    read = type(config).from_dict(copy.deepcopy(written)).to_dict()
    ropes = read.get("rope_parameters") or {}
    for part in (ropes, *ropes.values()):
        if isinstance(part, dict):
            part.pop("type", None)
    # Read from the top level it stays there, beside the place that counts.
    unread = ("transformers_version", "partial_rotary_factor")
    return {name: value for name, value in read.items() if name not in unread}


def make(chosen, folder):
    generator = torch.Generator().manual_seed(tiny.SEED)
    single = block_choices.build(chosen.config, generator) if chosen.blocks else tiny.build(
        transformers.AutoModelForCausalLM, chosen.config, generator)
    config = single.config
    written = tiny.save(single, folder / f"{chosen.stem}.safetensors") | chosen.blocks
    sequences = [torch.randint(0, config.vocab_size, (n,), generator=generator)
                 for n in chosen.lengths]
    positions = [tiny.chosen_positions(n) for n in chosen.lengths]
    model = copy.deepcopy(single).double()
    probe = copy.deepcopy(model)
    loss = probe(sequences[0][None]).logits.square().mean()
    tiny.every_parameter_matters(probe, loss, WITHOUT_INFLUENCE.get(config.model_type, ()))
    logits = [logits_of(model, tokens) for tokens in sequences]
    for changes in chosen.twists:
        other = tiny.twisted(single, config, changes)
        moved = max(tiny.difference(logits_of(other, s)[kept], l[kept])
                    for s, l, kept in zip(sequences, logits, positions))
        assert moved > NOTICEABLE, f"{chosen.stem}: {changes} moves the logits by {moved:e}"
    record = tiny.header("tools/golden/decoder.py", written)
    if not chosen.blocks:
        record["older_config"] = older(config, written)
    kind = (written.get("rope_parameters") or {}).get("rope_type")
    record["f32"] = float("{:.1e}".format(max(
        tiny.difference(logits_of(single, s), l) for s, l in zip(sequences, logits))))
    if kind not in ("dynamic", "longrope"):
        record["padded"] = padded_gaps(single, sequences)
    record["greedy"] = [greedy(model, length, generator) for length in chosen.prompts]
    record["sequences"] = [tokens.tolist() for tokens in sequences]
    record["positions"] = positions
    record["logits"] = [tiny.rounded(rows[kept]) for rows, kept in zip(logits, positions)]
    tiny.write(folder / f"{chosen.stem}.json", record)
    size = sum((folder / f"{chosen.stem}.{end}").stat().st_size for end in ("json", "safetensors"))
    print(f"{chosen.stem:32} {size:6} bytes, f32 {record['f32']:.0e}, padded "
          f"{record.get('padded', '-')}, tokens {[len(set(g['tokens'])) for g in record['greedy']]}")


def main(folder, stems):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    for chosen in decoder_sets.decoders():
        if not stems or chosen.stem in stems:
            make(chosen, folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), set(sys.argv[2:]))
