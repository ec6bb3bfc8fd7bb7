"""Makes the golden vectors of the tokenizers: small vocabularies of every kind and their ids.

Run from the root of the repository, in an environment with transformers 5, tokenizers,
sentencepiece and protobuf:

    python tools/golden/token_ids.py testdata/tokenizers

It writes `texts.json`, the texts, of which long ones are a rule; for each kind a folder with the
raw files of a checkpoint and `expected.json`, what transformers makes of them; and `chat.json`,
chat templates with what transformers renders.

`expected.json` holds versions, the class that transformers chose, the special tokens around a
text, and for each text its ids without them, as a list or, if long, as count and hash, and its
decodings where they differ from the text.
"""

import datetime
import io
import json
import pathlib
import random
import shutil
import sys

sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]

import sentencepiece
import tokenizers
import transformers
from tokenizers import models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

SEED = 20240607
LONG = 160

WORDS = """the river harbour window garden letter morning of and a to in it is was for on with children
play under trees walked slowly through old town because nobody wanted print return value 12 345 6789 2024
don't we'll été naïve Straße größer niño мир привет город 你好 世界 東京 こんにちは مرحبا سلام שלום עולם 한국어
😀 👍 code(x) = 42; https://example.org/path?q=1 e.g. A.B.C. Hello World NASA iPhone""".split()

TEXTS = [
    "", " ", "  ", "   \t ", "\n", "\n\n\n", "\r\n", "a\r\nb\nc\rd", "Hello", " Hello", "  Hello  World  ",
    "Hello world, it's the river's morning.", "The harbour\tand\t\tthe garden", "tab\tat\tthe end\t",
    "don't we'll I'M THEY'RE", "é e\u0301 ñ n\u0303 Å A\u030a ﬁ ﬀ ㎏ ① ½ ²", "ÀÉÎÕÜ Straße ẞ İıI ΑΣ ς",
    "😀👍🏽👨\u200d👩\u200d👧\u200d👦🏴\U000e0067\U000e0062\U000e007f🇩🇪🇫", "漢字とひらがなカタカナ、한국어。中文", "你好世界！ﾊﾝｶｸ　全角　ＡＢＣ１２３",
    "مرحبا بالعالم السَّلامُ", "שָׁלוֹם עולם", "हिन्दी ไทย தமிழ்", "Z\u0351\u036b\u0343a\u0300\u0301\u0302\u0303\u0304lgo",
    "nul\x00in\x01the\x02middle\x7f\x80\x9f", "\x00", "zero\u200bwidth\u200c\u200d\u2060joiner", "\ufeffbom at start", "in\ufeffside",
    "line\u2028sep\u2029par\x85nel\x0bvt\x0cff", "nbsp\u00a0thin\u2009ideographic\u3000space\u1680ogham", "soft\u00adhyphen\u061crtl\u202eoverride\u202c",
    "\ud7ff\ue000\ufffd\uffff\U0001f680\U0010ffff\U000f0000", "0123456789 3.14 1,000,000 1e-9 ١٢٣ Ⅷ", "def f(x):\n    return x  # ok\n\n\tif (a&&b) { y+=1; }",
    "https://user:pw@example.org:8080/p%20q?a=1&b=[2]#frag me@x.io", "<s>text</s>", "a<s> b </s>c<unk>", "<|endoftext|>x<|endoftext|>",
    "[CLS] a [MASK] b [SEP] [PAD]", "x <mask> y<mask>z", "<pad><bos><eos>", "<|user|>hi<|user|> there", "<start_of_turn>user\nhi<end_of_turn>",
    "<0x41><0x0A><0xZZ>", "▁under▁score ▁ ▁▁", "Ġbyte Ċ level", "##ing ## word##", "`` quotes '' “curly” ‘x’ … — –",
    "a,b;c.d!e?f:g-h_i/j\\k|l~m^n@o#p$q%r&s*t(u)v+w=x[y]z{0}", "<extra_id_0> and <extra_id_99>", "UPPER lower MiXeD cAsE", "trailing newline\n", "\n leading", "x" * 30,
    "<|im_start|>user\nhi<|im_end|>", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛", "a\u0338b ≠ =\u0338",
    {"repeat": "a", "count": 10000}, {"repeat": "ab1é", "count": 2500}, {"repeat": "世", "count": 3000}, {"repeat": " ", "count": 600},
    {"repeat": "the river ", "count": 500}, {"repeat": "\n", "count": 257}, {"repeat": "😀", "count": 700}, {"repeat": "e\u0301", "count": 400},
]

PAIRS = [("Hello world", "the river"), ("", "b"), ("a", ""), ("été 你好", "<s> x")]


def text_of(item):
    return item if isinstance(item, str) else item["repeat"] * item["count"]


def corpus():
    """Sentences of a few words, the same ones in every run."""
    draw = random.Random(SEED)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 14))) for _ in range(1500)]


def train_sentencepiece(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, character_coverage=1.0, num_threads=1,
        minloglevel=2, hard_vocab_limit=False, **options)
    return model.getvalue()


def small_table(folder):
    """A few replacements: a charsmap that is small, unlike nmt_nfkc."""
    rows = ["FB01\t66 69", "2160\t49", "FF21\t41", "3000\t20", "A0\t20", "65 301\tE9", "9\t20", "A\t20",
            "D\t20", "200B\t", "1F600\t3A 29", "B2\t32"]
    path = folder / "rules.tsv"
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def byte_level(specials, size=420):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    return json.dumps(model["vocab"], ensure_ascii=False), "#version: 0.2\n" + merges


def word_piece(cased):
    """Letters, words and their beginnings and ends; the trainer's choice changes from run to run."""
    normalizer = normalizers.BertNormalizer(lowercase=not cased)
    splitter = pre_tokenizers.BertPreTokenizer()
    words = [word for text in WORDS for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    pieces = set()
    for word in words:
        pieces |= {word, word[:3], "##" + word[-2:], "##" + word[1:]}
        pieces |= set(word) | {"##" + letter for letter in word}
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(pieces - {"##"})]
    return "".join(token + "\n" for token in tokens)


def token(content, **flags):
    return dict(content=content, lstrip=False, rstrip=False, single_word=False, normalized=False,
                special=True) | flags


def old_llama_json(scratch, model, settings):
    """A tokenizer.json as checkpoints of Llama have it: spaces are the normalizer's work."""
    folder = scratch / "llama"
    write_folder(folder, {"tokenizer.model": model, "tokenizer_config.json": settings | dict(add_bos_token=True)})
    document = json.loads(AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str())
    document["pre_tokenizer"] = None
    document["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    document["model"]["unk_token"] = "<unk>"
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    return json.dumps(document, separators=(",", ":"))


def kinds(scratch):
    """Stem and files of each folder."""
    bpe = train_sentencepiece(
        vocab_size=560, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        user_defined_symbols=["<|user|>"], control_symbols=["<ctl>"])
    llama = dict(tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    typed = lambda name: {"model_type": name}
    yield "llama", {
        "tokenizer.model": bpe, "config.json": typed("llama"),
        "tokenizer_config.json": llama | dict(add_bos_token=True, legacy=False)}
    yield "llama-legacy", {
        "tokenizer.model": bpe, "config.json": typed("llama"),
        "special_tokens_map.json": dict(pad_token="<extra>", bos_token=token("<s>"), eos_token="</s>"),
        "added_tokens.json": {"<extra>": sentencepiece.SentencePieceProcessor(model_proto=bpe).vocab_size()},
        "tokenizer_config.json": llama | dict(add_bos_token=True, add_eos_token=True, legacy=True)}
    yield "llama-no-prefix", {
        "tokenizer.model": bpe, "config.json": typed("llama"),
        "tokenizer_config.json": llama | dict(add_prefix_space=False, add_bos_token=False)}
    old = old_llama_json(scratch, bpe, llama)
    yield "llama-json", {
        "tokenizer.json": old, "config.json": typed("llama"),
        "tokenizer_config.json": llama | dict(tokenizer_class="LlamaTokenizerFast", legacy=False)}
    yield "mistral-json", {
        "tokenizer.json": old, "config.json": typed("mistral"), "tokenizer_config.json": llama}
    gemma = train_sentencepiece(
        vocab_size=560, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        add_dummy_prefix=False, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
        user_defined_symbols=["<mask>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "▁▁", "▁▁▁"])
    yield "gemma", {
        "tokenizer.model": gemma, "config.json": typed("gemma"),
        "tokenizer_config.json": dict(tokenizer_class="GemmaTokenizer", add_bos_token=True)}
    yield "sentencepiece-bare", {"tokenizer.model": gemma}
    t5 = train_sentencepiece(
        vocab_size=420, model_type="unigram", normalization_rule_name="nmt_nfkc",
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    yield "t5", {"spiece.model": t5, "config.json": typed("t5"),
                 "tokenizer_config.json": dict(tokenizer_class="T5Tokenizer", extra_ids=100)}
    table = small_table(scratch)
    yield "xlm-roberta", {
        "sentencepiece.bpe.model": train_sentencepiece(
            vocab_size=420, model_type="unigram", normalization_rule_tsv=table),
        "config.json": typed("xlm-roberta"),
        "tokenizer_config.json": dict(tokenizer_class="XLMRobertaTokenizer")}
    yield "albert", {
        "spiece.model": train_sentencepiece(
            vocab_size=420, model_type="unigram", normalization_rule_tsv=table, pad_id=0, unk_id=1,
            bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"]),
        "config.json": typed("albert"),
        "tokenizer_config.json": dict(tokenizer_class="AlbertTokenizer", do_lower_case=True)}
    vocab, merges = byte_level(["<|endoftext|>"])
    yield "gpt2", {"vocab.json": vocab, "merges.txt": merges, "config.json": typed("gpt2")}
    yield "gpt2-added", {
        "vocab.json": vocab, "merges.txt": merges, "config.json": typed("gpt2"),
        "tokenizer_config.json": dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=True,
                                      add_bos_token=True),
        "special_tokens_map.json": dict(pad_token="<pad>"),
        "added_tokens.json": {"<pad>": 420, "<mask>": 421}}
    vocab, merges = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    yield "roberta", {
        "vocab.json": vocab, "merges.txt": merges, "config.json": typed("roberta"),
        "tokenizer_config.json": dict(
            tokenizer_class="RobertaTokenizer", mask_token=token("<mask>", lstrip=True) | {"__type": "AddedToken"})}
    vocab, merges = byte_level([])
    size = len(json.loads(vocab))
    named = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    yield "qwen2", {
        "vocab.json": vocab, "merges.txt": merges, "config.json": typed("qwen2"),
        "tokenizer_config.json": dict(
            tokenizer_class="Qwen2Tokenizer", add_prefix_space=False, bos_token=None,
            eos_token="<|im_end|>", pad_token="<|endoftext|>",
            added_tokens_decoder={
                str(size + i): token(name, special=name != "<|endoftext|>") for i, name in enumerate(named)},
            additional_special_tokens=named[1:])}
    yield "bert-uncased", {"vocab.txt": word_piece(False), "config.json": typed("bert")}
    yield "bert-cased", {
        "vocab.txt": word_piece(True), "config.json": typed("bert"),
        "tokenizer_config.json": dict(tokenizer_class="BertTokenizer", do_lower_case=False,
                                      strip_accents=True, tokenize_chinese_chars=False)}


def digest(ids):
    """Long rows of ids as their count and a hash that the test computes too."""
    if len(ids) <= LONG:
        return ids
    value = 0
    for one in ids:
        value = (value * 1000003 + one + 1) % 2**64
    return {"count": len(ids), "hash": str(value)}


def short(text):
    if len(text) <= LONG:
        return text
    return digest([ord(letter) for letter in text])


def expected(folder):
    """What transformers makes of a folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    full = tokenizer("a").input_ids
    plain = tokenizer("a", add_special_tokens=False).input_ids
    at = next(i for i in range(len(full)) if full[i:i + len(plain)] == plain)
    before, after = full[:at], full[at + len(plain):]
    cases = []
    for item in TEXTS:
        text = text_of(item)
        ids = tokenizer(text, add_special_tokens=False).input_ids
        special = tokenizer(text).input_ids
        assert special == before + ids + after, (folder, text)
        case = {"ids": digest(ids)}
        for name, skip in (("decoded", False), ("skipped", True)):
            decoded = tokenizer.decode(special if skip else ids, skip_special_tokens=skip)
            if decoded != text:
                case[name] = short(decoded)
        cases.append(case)
    # One by one an empty second text would count as none.
    pairs = tokenizer(PAIRS, return_token_type_ids=True, padding=False)
    pairs = zip(pairs.input_ids, pairs.token_type_ids)
    return {
        "versions": {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
                     "sentencepiece": sentencepiece.__version__},
        "class": type(tokenizer).__name__, "before": before, "after": after,
        "bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id, "vocab": len(tokenizer),
        "pairs": [{"ids": ids, "types": types} for ids, types in pairs],
        "cases": cases,
    }


def write_folder(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
            (folder / name).write_text(text, encoding="utf-8", newline="\n")


def record(folder):
    lines = expected(folder)
    cases = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in lines.pop("cases"))
    head = json.dumps(lines, ensure_ascii=True)
    (folder / "expected.json").write_text(f'{head[:-1]},\n"cases": [\n{cases}\n]}}\n')


# Written for this test in the style of the families that are named.
CHAT = {
    "llama3": """{%- set loop_messages = messages -%}
{{- bos_token }}
{%- if strftime_now is defined %}
    {%- set today = strftime_now("%d %b %Y") %}
{%- else %}
    {%- set today = "26 Jul 2024" %}
{%- endif %}
{%- if loop_messages[0]['role'] == 'system' %}
    {%- set system = loop_messages[0]['content'] | trim %}
    {%- set loop_messages = loop_messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today Date: " + today + "\n\n" + system + "<|eot_id|>" }}
{%- for message in loop_messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{{- bos_token }}
{%- set ns = namespace(index=0) %}
{%- for message in turns %}
    {%- if message.role in ["user", "assistant"] and not message.tool_calls %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate user/assistant/user/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{%- for message in turns %}
    {%- if message["role"] == "user" %}
        {%- if tools is defined and tools is not none and (message == turns[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" and message.content %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message.tool_calls is defined %}
        {{- "[TOOL_CALLS] [" }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function|tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + loop.index0|string + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + "}[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
""",
    "qwen": """{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ message.content ~ '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate user/assistant") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
""",
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "generation": """{% for message in messages %}
{% if message['role'] == 'assistant' %}
[{% generation %}{{ message['content'] }}{% endgeneration %}]
{%- else %}
  ({{ message['role'] | upper }}: {{ message.content }})
{% endif %}
{% endfor %}
""",
    "indented": """  {% for message in messages %}
    {% if message.role == 'user' %}
        {# who asks #}
      {{ message.content }}
    {% elif message.tool_calls %}
  	{% set name = message.tool_calls[0].function.name %}  calls {{ name }}
    {% else %}
    other: {{ message.content }}
    {% endif %}
  {% endfor %}

end
""",
    "python": """{#- what Python prints -#}
{{ true }} {{ none }} {{ 1.0 }} {{ 10 // 3 }} {{ 10 / 4 }} {{ 2 ** 5 }} {{ [1, 'a', none, true] }} {{ {'k': 1.5} }}
{% macro line(text, mark='-') -%}
{{ mark * 3 }} {{ text.title() }}
{%- endmacro %}
{{ line('hello world') }} {{ line(text='x y', mark='=') }}
{% for word in 'b,a,c'.split(',') | sort %}{% if word == 'c' %}{% break %}{% endif %}{{ loop.index }}{{ word }}{{ ';' if not loop.last }}{% endfor %}
{{ messages | map(attribute='role') | join('/') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ tools | tojson(indent=2) if tools else '[]' }}
{{ {'b': 1, 'a': [1.0, 'é"\\n']} | tojson }} {{ 'x' in 'xyz' }} {{ 'a b'.replace(' ', '_') }} {{ messages[-1].content[:5] }}
{%- for key, value in messages[0].items() %} {{ key }}={{ value }}{% endfor %}
{{ undefined_thing }}|{{ messages[0].nothing is defined }}|{{ documents[0].title if documents else 'none' }}|{{ custom | default('no', true) }}
""",
    "fails": """first
{{ raise_exception('only user messages, got ' + messages[0].role) }}
""",
}

TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a town, in °C.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}, "days": {"type": "integer", "default": 1.5}},
                   "required": ["town"]}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"town": "Ørsted \"x\"", "days": 2}}}]}
USER = {"role": "user", "content": "  Hello, <b>你好</b> & \"friends\"\n"}
CHATS = [
    ("user", [USER], {}),
    ("prompt", [USER], dict(add_generation_prompt=True)),
    ("system", [{"role": "system", "content": "Be brief.\n"}, USER, {"role": "assistant", "content": " Hi! "},
                {"role": "user", "content": "Bye"}], dict(add_generation_prompt=True)),
    ("thinking", [USER, {"role": "assistant", "content": "<think>\nlong\n</think>\n\nyes"},
                  {"role": "user", "content": "and?"}, {"role": "assistant", "reasoning": "hm\n", "content": "no"}],
     dict(enable_thinking=False)),
    ("tools", [{"role": "system", "content": "S"}, USER, CALL, {"role": "tool", "content": "21.5"}, {"role": "tool", "content": "[1, 2]"}],
     dict(tools=TOOLS, add_generation_prompt=True, documents=[{"title": "T", "text": "x"}], custom="yes")),
    ("tools-last", [USER], dict(tools=TOOLS, enable_thinking=False, add_generation_prompt=True)),
    ("parts", [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "image"}, {"type": "text", "text": "b"}]}], {}),
    ("two-users", [USER, USER], {}),
    ("dated", [USER], dict(date=[2025, 3, 4])),
    ("assistant-first", [{"role": "assistant", "content": "I am."}], {}),
]


def record_chats(out):
    """What transformers renders; failures are recorded as their message, if the template wrote it."""
    tokenizer = AutoTokenizer.from_pretrained(out / "llama")
    rows = []
    for name, template in CHAT.items():
        for chat, messages, options in CHATS:
            row = {"template": name, "chat": chat}
            try:
                row["text"] = render(tokenizer, template, messages, options)
            except Exception as error:
                if type(error).__name__ != "TemplateError":
                    row["fails"] = ""
                else:
                    row["fails"] = str(error)
            rows.append(row)
    chats = {name: {"messages": messages, "options": options} for name, messages, options in CHATS}
    document = {"versions": {"transformers": transformers.__version__}, "templates": CHAT, "chats": chats, "rows": rows}
    (out / "chat.json").write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n")


def render(tokenizer, template, messages, options):
    """Renders without a clock: the function for the date is given a day, or it is not there."""
    compiled = chat_template_utils._compile_jinja_template(template)
    options = dict(options)
    day = options.pop("date", None)
    for known in (compiled.environment.globals, compiled.globals):
        known.pop("strftime_now", None)
        if day:
            known["strftime_now"] = datetime.datetime(*day).strftime
    return tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, **options)


def main(out):
    transformers.logging.set_verbosity_error()
    out.mkdir(parents=True, exist_ok=True)
    scratch = out / "scratch"
    scratch.mkdir(exist_ok=True)
    (out / "texts.json").write_text(json.dumps({"texts": TEXTS, "pairs": PAIRS}, indent=0) + "\n")
    for stem, files in kinds(scratch):
        write_folder(out / stem, files)
        record(out / stem)
        print(stem)
    shutil.rmtree(scratch)
    record_chats(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
