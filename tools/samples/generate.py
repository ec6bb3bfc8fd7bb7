"""Lets a model write documents, one a line, to be used as calibration text.

    python tools/samples/generate.py stories260K generated.jsonl --documents 400

Each starts from the beginning of sequence and is sampled at temperature 1 from the whole
vocabulary, up to 255 tokens or the end of sequence. Needs torch and transformers.
"""

import argparse
import json

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--tokens", type=int, default=255)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    bos, eos = model.config.bos_token_id, model.config.eos_token_id
    start = torch.full((args.documents, 1), bos)
    with torch.no_grad():
        written = model.generate(start, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                                 max_new_tokens=args.tokens, pad_token_id=eos)
    with open(args.output, "w") as out:
        for tokens in written[:, 1:].tolist():
            ends = [tokens.index(end) for end in (bos, eos) if end in tokens]
            text = tokenizer.decode(tokens[:min(ends, default=None)], skip_special_tokens=True)
            if text.strip():
                out.write(json.dumps({"text": text.strip()}) + "\n")


if __name__ == "__main__":
    main()
