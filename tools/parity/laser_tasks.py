"""Compares `linwright eval --tasks laser_*` with figures computed anew by transformers.

    python tools/parity/laser_tasks.py MODEL --data DIR --work DIR [--limit 60]

MODEL is a checkpoint of a causal model that both read (`assets/pocket` will do). DIR holds any of
`fever.jsonl`, `counterfact.json`, `bigbench_causal_judgement.json`, `hotpotqa.json`; what is not there is made up.
Questions, answers, likelihoods and judgements are written here a second time, from the description of
the data sets. For the tasks of masked language models a tiny random RoBERTa and a tiny BERT are made. Every
log-likelihood must agree to 1e-5 max(1, |ll|) and every judgement exactly, but where the best two
choices, or tokens, are nearer to each other than that; or the script ends with 1.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys

TOLERANCE = 1e-5
WORDS = "the of Tom Anna river house red small letter garden teacher paints sees old bread north market".split()
JOBS = ["journalist", "poet", "composer", "model", "teacher", "architect", "painter", "professor"]


def words(rng, least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def made_up(name):
    rng = random.Random(name)
    if name == "fever.jsonl":
        rows = [{"claim": words(rng, 4, 9) + f" {i}.", "label": rng.choice(["SUPPORTS", "REFUTES"])} for i in range(40)]
    elif name == "counterfact.json":
        rows = [{"prompt": words(rng, 4, 9), "rephrase_prompt": words(rng, 4, 9), "ground_truth": rng.choice(WORDS)} for _ in range(20)]
    elif name == "hotpotqa.json":
        rows = [{"question": words(rng, 4, 9), "answer": words(rng, 1, 3)} for _ in range(40)]
    elif name == "bios.jsonl":
        rows = [{"hard_text": words(rng, 5, 90), "profession": rng.choice(JOBS), "gender": rng.randint(0, 1)} for _ in range(40)]
    elif name == "truthfulqa.jsonl":
        rows = [{"question": words(rng, 3, 6) + "?", "mc2_targets": {"choices": [words(rng, 2, 5), words(rng, 2, 5) + "."], "labels": [1, 0]}}
                for _ in range(20)]
    else:
        rows = {"examples": [{"input": words(rng, 9, 30) + "?", "target_scores": {"Yes": i % 2, "No": 1 - i % 2}} for i in range(40)]}
    return rows


def rows_of(path):
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = json.loads(text)
    return rows["examples"] if isinstance(rows, dict) else rows


def stopped(text):
    text = text.strip()
    return text if text[-1] in ".?" else text + "."


# Each function gives records: prompt, answer, choices (empty where answers are written), and for masked
# models the start that may be cut with its limit, and what is around the gap.

def fever(rows):
    labels = {}
    for row in rows:
        labels.setdefault(row["claim"].strip(), set()).add(row["label"])
    seen = set()
    for row in rows:
        claim = row["claim"].strip()
        if row["label"] == "NOT ENOUGH INFO" or claim in seen or labels[claim] >= {"SUPPORTS", "REFUTES"}:
            continue
        seen.add(claim)
        prompt = f"Consider the following claim: {stopped(claim)} Is this claim true or false. The claim is"
        yield dict(prompt=prompt, answer="true" if row["label"] == "SUPPORTS" else "false", choices=["true", "false"],
                   start=prompt, last=None, middle="", end="")


def counterfact(rows):
    for row in rows:
        for prompt in (row["prompt"], row["rephrase_prompt"]):
            yield dict(prompt=prompt.strip(), answer=row["ground_truth"].strip(), choices=[], start=prompt.strip(), last=None, middle="", end=".")


def hotpotqa(rows):
    for row in rows:
        question = row["question"].strip()
        prompt = (question if question[-1] in ".?" else question + "?") + " The answer is"
        yield dict(prompt=prompt, answer=row["answer"].strip(), choices=[], start=prompt, last=None, middle="", end="")


def causal_judgement(rows):
    for row in rows:
        scores = row["target_scores"]
        yield dict(prompt=row["input"], answer=max(scores, key=scores.get), choices=["Yes", "No"])


def truthfulqa(rows):
    for row in rows:
        for choice, label in zip(row["mc2_targets"]["choices"], row["mc2_targets"]["labels"]):
            prompt = stopped(f"{row['question'].strip()} {choice.strip()}") + "Is this statement true or false? This statement is"
            yield dict(prompt=prompt, answer="true" if label else "false", choices=["true", "false"], start=prompt, last=None, middle="", end="")


def bios(rows, choices, answer, question, sentence, last):
    for row in rows:
        start = f"Consider the following text: {stopped(row['hard_text'])}"
        yield dict(prompt=f"{start} {question}", answer=answer(row), choices=choices, start=start, last=last, middle=sentence, end=".")


def gender(rows):
    return bios(rows, ["male", "female"], lambda row: ["male", "female"][row["gender"]],
                "Is the person in this text a male or female? The gender of this person is", "This person is", 50)


def profession(rows):
    return bios(rows, JOBS, lambda row: row["profession"],
                "What is the profession of the person in this text? The profession of this person is",
                "The profession of the person in the text is called", None)


FILES = {"fever": "fever.jsonl", "counterfact": "counterfact.json", "hotpotqa": "hotpotqa.json", "truthfulqa": "truthfulqa.jsonl",
         "bios_gender": "bios.jsonl", "bios_profession": "bios.jsonl", "causal_judgement": "bigbench_causal_judgement.json"}
RECORDS = {"fever": fever, "counterfact": counterfact, "hotpotqa": hotpotqa, "truthfulqa": truthfulqa, "bios_gender": gender,
           "bios_profession": profession, "causal_judgement": causal_judgement}
WRITTEN = {"counterfact": 10, "hotpotqa": 15}
WRITTEN_MASKED = {"counterfact": 1, "hotpotqa": 5}


class Causal:
    def __init__(self, path):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch, self.written, self.bar = torch, WRITTEN, 14
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        plain, full = (self.tokenizer("a", add_special_tokens=special).input_ids for special in (False, True))
        self.first = full[: len(full) - len(plain)] if full[-len(plain):] == plain else []

    def ids(self, text):
        return self.first + self.tokenizer(text, add_special_tokens=False).input_ids

    def likelihood(self, record, answer):
        prompt = record["prompt"].rstrip()
        before, whole = len(self.ids(prompt)), self.ids(f"{prompt}{record['prompt'][len(prompt):]} {answer}")
        with self.torch.no_grad():
            logs = self.model(self.torch.tensor([whole[:-1]])).logits[0].double().log_softmax(-1)
        return sum(logs[i - 1, whole[i]].item() for i in range(before, len(whole))), len(whole) - before

    def write(self, record, tokens):
        ids, new, closest = self.ids(record["prompt"]), [], 1.0
        for _ in range(tokens):
            with self.torch.no_grad():
                logits = self.model(self.torch.tensor([ids + new])).logits[0, -1]
            best = logits.topk(2)
            closest = min(closest, (best.values[0] - best.values[1]).item())
            if best.indices[0].item() == self.tokenizer.eos_token_id:
                break
            new.append(best.indices[0].item())
        return self.tokenizer.decode(new), closest


class Masked:
    def __init__(self, path):
        import torch
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        self.torch, self.written, self.bar = torch, WRITTEN_MASKED, 14
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float32).eval()

    def logs(self, record, masks):
        start = record["start"]
        ids = self.tokenizer(start, add_special_tokens=False).input_ids
        if record["last"] and len(ids) > record["last"]:
            start = self.tokenizer.decode(ids[-record["last"]:]).strip()
        gap = " ".join([self.tokenizer.mask_token] * masks)
        text = " ".join(part for part in (start, record["middle"], gap) if part) + record["end"]
        ids = self.tokenizer(text).input_ids
        places = [i for i, token in enumerate(ids) if token == self.tokenizer.mask_token_id]
        assert len(places) == masks, (text, ids)
        with self.torch.no_grad():
            return self.model(self.torch.tensor([ids])).logits[0, places].double().log_softmax(-1)

    def likelihood(self, record, answer):
        ids = self.tokenizer(f" {answer}", add_special_tokens=False).input_ids
        logs = self.logs(record, len(ids))
        return sum(logs[i, token].item() for i, token in enumerate(ids)), len(ids)

    def write(self, record, tokens):
        best = self.logs(record, tokens).topk(2)
        closest = (best.values[:, 0] - best.values[:, 1]).min().item()
        return self.tokenizer.decode(best.indices[:, 0].tolist()), closest


def tiny(kind, work):
    """A random masked language model with a vocabulary of the made-up texts."""
    import torch
    import transformers as hf
    from tokenizers import ByteLevelBPETokenizer, BertWordPieceTokenizer

    torch.manual_seed(5)
    folder = work / f"tiny-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    text.write_text("\n".join([" ".join(WORDS + JOBS), "Consider the following claim text: true false male female. Is this person is"] * 20))
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=300)
    if kind == "roberta":
        trainer = ByteLevelBPETokenizer()
        trainer.train([str(text)], vocab_size=420, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        trainer.save_model(str(folder))
        tokenizer = hf.RobertaTokenizerFast.from_pretrained(folder)
        model = hf.RobertaForMaskedLM(hf.RobertaConfig(vocab_size=len(tokenizer), pad_token_id=1, type_vocab_size=1, **sizes))
    else:
        trainer = BertWordPieceTokenizer(lowercase=True)
        trainer.train([str(text)], vocab_size=300)
        trainer.save_model(str(folder))
        tokenizer = hf.BertTokenizerFast.from_pretrained(folder)
        model = hf.BertForMaskedLM(hf.BertConfig(vocab_size=len(tokenizer), **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def theirs(model, task, record):
    """The likelihood of the answer, its tokens, whether it is right, and how narrowly that was decided."""
    if record["choices"]:
        scores = [model.likelihood(record, choice) for choice in record["choices"]]
        order = sorted((nats for nats, _ in scores), reverse=True)
        gold = record["choices"].index(record["answer"])
        return *scores[gold], max(range(len(scores)), key=lambda i: scores[i][0]) == gold, order[0] - order[1]
    nats, tokens = model.likelihood(record, record["answer"])
    text, closest = model.write(record, model.written[task])
    text, answer = text.strip().lower(), record["answer"].strip().lower()
    return nats, tokens, text == answer if model.written[task] == 1 else answer in text, closest


def ours(args, path, task, data, folder):
    command = [args.linwright, "eval", path, "--tasks", f"laser_{task}", "--data", f"laser_{task}={data}", "--json", "--quiet",
               "--log-samples", folder]
    out = json.loads(subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE).stdout)
    lines = (folder / f"samples_laser_{task}.jsonl").read_text().splitlines()
    return out["results"][f"laser_{task}"], [json.loads(line) for line in lines]


def compare(args, name, path, model, task):
    given = args.data / FILES[task] if args.data else None
    rows = rows_of(given) if given and given.exists() else made_up(FILES[task])
    rows = rows["examples"] if isinstance(rows, dict) else rows
    data = args.work / f"{name}-{task}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows[: args.limit]))
    figures, samples = ours(args, path, task, data, args.work / f"samples-{name}")
    wrong, largest, right, losses, narrow, kept = [], 0.0, 0, 0.0, 0, 0
    samples = iter(samples)
    for record in RECORDS[task](rows_of(data)):
        nats, tokens, is_right, gap = theirs(model, task, record)
        if task == "hotpotqa" and tokens > model.bar:
            continue
        kept += 1
        sample = next(samples)
        off = abs(nats - sample["answer_logprob"]) / max(1.0, abs(nats))
        largest = max(largest, off)
        if sample["prompted-question"] != record["prompt"] or sample["answer_length"] != tokens or not off <= TOLERANCE:
            wrong.append(f"{record['prompt']!r}: {sample['answer_logprob']} of {sample['answer_length']}, not {nats} of {tokens}")
        if sample["correct"] != is_right:
            narrow += 1
            if gap > TOLERANCE:
                wrong.append(f"{record['prompt']!r}: correct is {sample['correct']} (gap {gap:.1e})")
        right += is_right
        losses -= nats / tokens
    if next(samples, None) is not None:
        wrong.append("there are more records")
    if abs(figures["acc,none"] - right / kept) > narrow / kept + 1e-12 or abs(figures["log_loss,none"] - losses / kept) > 1e-5 * losses / kept:
        wrong.append(f"accuracy {figures['acc,none']}, log loss {figures['log_loss,none']}, not {right / kept}, {losses / kept}")
    print(f"| {name} | {task} | {kept} | {figures['acc,none']:.4f} | {figures['log_loss,none']:.4f} | {largest:.1e} | "
          f"{'equal' if not wrong else 'DIFFERS'} |", flush=True)
    for line in wrong[:5]:
        print(f"  {task}: {line}", file=sys.stderr)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--limit", type=int, default=60, help="rows of each file")
    parser.add_argument("--linwright", default="target/release/linwright")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print("| model | set | records | accuracy | log loss | largest difference | |\n|---|---|---|---|---|---|---|")
    causal = Causal(args.model)
    equal = all([compare(args, "causal", args.model, causal, task) for task in ("fever", "counterfact", "causal_judgement", "hotpotqa")])
    for kind in ("roberta", "bert"):
        folder = tiny(kind, args.work)
        masked = Masked(folder)
        tasks = ("fever", "truthfulqa", "bios_gender", "bios_profession", "counterfact", "hotpotqa")
        equal &= all([compare(args, kind, folder, masked, task) for task in tasks])
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
