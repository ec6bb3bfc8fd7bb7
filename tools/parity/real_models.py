"""Compares real models in GGUF files with transformers' own loader of such files: token ids and log-probabilities.

    cargo build --release -p linwright-model --examples
    python tools/parity/real_models.py FOLDER --text FILE [--models smollm2-135m,gemma-3-270m]

FOLDER is what `tools/models/get` fetched. transformers reads the same `model.gguf` by the package `gguf`, whose
dequantiser and tokenizer are not ours. Compared are

- ids of 1,000 texts that a seed draws: pieces of thirty languages, emoji, code, numbers, white space, and what looks
  like special tokens. Every one must be equal.
- log-probabilities of all tokens of the vocabulary at each place of eight windows of 128 tokens of FILE, both in f32:
  the largest difference relative to the largest magnitude must be at most 1e-5; also their mean over the right tokens.

If anything differs, the exit code is 1. It needs `torch`, `transformers` and `gguf`.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "target/release/examples"
TEXTS = 1000
WINDOWS = 8
LENGTH = 128
TOLERANCE = 1e-5

PIECES = [
    "The weather was better than anyone had hoped for.", "Ein Rechner mit zwei Kernen genügt völlig.",
    "Où est passée la troisième façade ?", "El niño comió piñones; ¿quién más?", "O coração não sabe esperar.",
    "Perché no? È già così.", "Zażółć gęślą jaźń.", "Příliš žluťoučký kůň.", "Съешь ещё этих мягких булок.",
    "Це речення українською мовою.", "Η γρήγορη αλεπού πηδάει.", "הטקסט הזה נכתב מימין לשמאל.",
    "هذا نص قصير باللغة العربية.", "این یک متن فارسی است.", "यह हिन्दी का एक वाक्य है।", "এটি একটি বাংলা বাক্য।",
    "இது ஒரு தமிழ் வாக்கியம்.", "ఇది తెలుగు వాక్యం.", "นี่คือประโยคภาษาไทย", "Đây là một câu tiếng Việt.",
    "これは日本語の文です。", "漢字とカタカナと ひらがな", "这是一个中文句子，带标点。", "이것은 한국어 문장입니다.",
    "ეს ქართული წინადადებაა.", "Սա հայերեն նախադասություն է:", "Ђорђе чека воз у Београду.", "İstanbul'da ığdır yağmuru",
    "Þetta er íslenska.", "Tämä on suomea.", "Ez egy magyar mondat.", "Goeie môre, hoe gaan dit?",
    "😀👍🏽 👩‍👩‍👧‍👦 🇫🇷🇩🇪", "e\u0301 vs é, ﬁ, Å, ½, ①", "\u200bzero\u200dwidth\ufeff", "math: ∑∫√π ≤ ∞ ∀x∈ℝ",
    "def f(x):\n    return [i**2 for i in range(x)]\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "SELECT * FROM t WHERE a >= 1.5e-3 AND b <> 'x';", "{\"key\": [1, 2.0, null, true]}", "<div class=\"a\">&nbsp;</div>",
    "https://example.org/a/b?c=d&e=f#g", "user.name+tag@example.co.uk", "3.14159 1,234,567 0x1F 1e10 10^-5 ½",
    "   three spaces", "tabs\t\t\tthere", "\n\n\nthree lines\r\n\r\n", " ", "\t", "a", "", "I'm we'll they've it's I'D",
    "CamelCaseIdentifier snake_case_name kebab-case", "!!!???...;;;---___***", "0123456789" * 3, "aaaaaaaaaaaaaaaaaaaaaaaa",
    "<|im_start|>user", "<|im_end|>", "<bos>", "<eos>", "<start_of_turn>model", "<|endoftext|>", "<unk>", "[INST] x [/INST]",
]


def texts():
    """Pieces alone, then drawn ones, joined in ways that a tokenizer must keep apart."""
    draw = random.Random(20261130)
    joined = lambda: draw.choice(["", " ", "  ", "\n", "\n\n", "\t", ", "]).join(
        draw.choice(PIECES)[draw.randrange(3) :] for _ in range(draw.randint(2, 6))
    )
    return PIECES + [joined() for _ in range(TEXTS - len(PIECES))]


def ours(example, arguments, lines):
    program = [str(EXAMPLES / example), *arguments]
    return subprocess.run(program, input=lines, capture_output=True, text=True, check=True).stdout


def ids_differ(path, tokenizer, told):
    """Number of texts whose ids differ; the first few are shown."""
    all_texts = texts()
    found = json.loads(ours("tokenize", [str(path)], json.dumps(all_texts)))
    wrong = 0
    for text, own in zip(all_texts, found, strict=True):
        other = tokenizer(text)["input_ids"]
        if own != other:
            wrong += 1
            if wrong <= 5:
                print(f"  {told}: {text!r}\n    linwright    {own}\n    transformers {other}")
    print(f"{told}: ids of {len(all_texts)} texts, {wrong} differ")
    return wrong


def logprobs_differ(path, model, tokenizer, text, told):
    """Largest difference of log-probabilities relative to their largest magnitude, and of their mean."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    windows = [start + ids[i * LENGTH : (i + 1) * LENGTH] for i in range(WINDOWS)]
    requests = "".join(json.dumps({"folder": str(path), "tokens": window}) + "\n" for window in windows)
    worst, sums = 0.0, [0.0, 0.0]
    for window, line in zip(windows, ours("logits", [], requests).splitlines(), strict=True):
        rows = json.loads(line)
        if "refused" in rows:
            sys.exit(f"{told}: {rows['refused']}")
        own = torch.log_softmax(torch.tensor(rows["rows"], dtype=torch.float64), -1)
        with torch.no_grad():
            other = torch.log_softmax(model(torch.tensor([window])).logits[0].double(), -1)
        worst = max(worst, ((own - other).abs().max() / other.abs().max()).item())
        for place, token in enumerate(window[1:]):
            sums[0] += own[place, token].item()
            sums[1] += other[place, token].item()
    mean = abs(sums[0] - sums[1]) / abs(sums[1])
    print(f"{told}: log-probabilities differ by {worst:.1e} of the largest, their mean by {mean:.1e}")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--models", default="smollm2-135m,gemma-3-270m")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    text, failed = args.text.read_text(), False
    for name in args.models.split(","):
        path = args.folder / name / "model.gguf"
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        failed |= ids_differ(path, tokenizer, name) > 0
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
        failed |= not logprobs_differ(path, model, tokenizer, text, name) <= TOLERANCE
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
