"""Training examples that made a model answer as it does.

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

from ._jobs import StrPath, Text
from ._progress import Progress
from ._results import Result

def best(
    store: Text,
    *,
    query: StrPath,
    output: StrPath,
    text_field: Text | None = None,
    reading: Text | None = None,
    methods: Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity'] | Sequence[Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity']] = ('influence', 'bm25'),
    damping: Text | None = None,
    count: int = 10,
    relevant: Text | None = None,
    seed: int = 0,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """List the best training examples for all queries by method, and the same number of random ones: what does a model not learn when it is trained without them?

    Each METHOD.txt has the indices of the best examples of each query, a line each; random.txt has as many as the longest of them. `train-lm --without FILE` reads these files.

    Args:
        store: A store that `attribute cache` wrote.
        query: Queries: texts, rows with `prompt` and `completion`, or labelled images.
        text_field: Field or column with the text [default: text].
        reading: How the file of queries is read: `examples=0-99`, `labels=FILE,resize=8x8`.
        methods: Methods; each writes a list.
        damping: Damping of the methods that have one: relative:D or absolute:D [default: relative:0.1].
        count: Number of examples for each query.
        relevant: Field with a list of ids of relevant examples; these are written as a list as well.
        seed: Seed of the list of random examples.
        output: Directory of the lists.
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def cache(
    model: Text,
    *,
    train: StrPath,
    output: StrPath,
    compress: Text = 'factgrass:4096',
    text_field: Text | None = None,
    reading: Text | None = None,
    sites: Text | Sequence[Text] = (),
    target: Literal['loss', 'margin', 'token'] = 'loss',
    reduction: Literal['mean', 'sum'] = 'mean',
    dtype: Literal['f32', 'bf16', 'f16', 'int8'] = 'f32',
    batch: int = 8,
    shard_rows: int = 256,
    learn_from: int = 200,
    checkpoint: int = 0,
    seed: int = 0,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Compute the gradient of every training example at the linear layers, compress it on the fly, and store it.

    The store is what the other commands read: `linwright attribute score STORE --query FILE`. Biases of linear layers are part of their gradients; embeddings and norms are left out. Run the same command again to resume; a store of another model, other examples or another compressor is refused.

    Args:
        model: A directory or GGUF file of a language model, `pocket` for the built-in one, or
            `owner/name[@revision]` on the hub; or a small network that train-net wrote.
        train: Training examples: a plain text file with one text per line, rows with a `text` field
            (JSONL, JSON, CSV, TSV, Parquet, Arrow) and optionally an `id`, both also compressed with
            gzip (`.gz`), `pocket`, or labelled images.
        compress: How gradients are compressed: KIND:SIZE, with numbers per layer, such as
            factgrass:4096 or logra:256; `,blow_up=C`, `,signs=S` and `,block=B` may follow.
        text_field: Field or column with the text [default: text].
        reading: How the file of examples is read: `examples=0-4999,max_length=64`, `labels=FILE`.
        sites: Only these linear layers: globs such as *mlp*, or regular expressions after re:.
        target: Function of a target to differentiate: its loss, the margin log p - log(1 - p), or its
            logit (token).
        reduction: Whether the targets of an example are summed or averaged.
        dtype: Number type of the store.
        batch: Batch size in examples.
        shard_rows: Examples per file of the store: the most that is lost if the process is killed.
        learn_from: Number of examples, from the first one, that learned compressors are fitted to.
        checkpoint: Number of the checkpoint; each number has different random maps.
        seed: Seed of random maps.
        dry_run: Print the estimated time, memory and disk space, and write nothing.
        output: Directory of the store; the same command resumes there, and processes with --shard share
            it.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def fisher(
    store: StrPath,
    *,
    damping: Text | None = None,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Decompose the empirical Fisher matrix of each layer of a store and keep it there, so that scores need not compute it again.

    With fewer examples than numbers of a layer the inner products of the examples are decomposed instead. Scores of a store without these files compute the same. Processes with --shard i/N share the layers.

    Args:
        store: A store that `attribute cache` wrote.
        damping: Report what this damping adds: relative:D, D times the mean, or absolute:D [default:
            relative:0.1].
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def lds(
    store: Text,
    *,
    images: StrPath,
    output: StrPath,
    methods: Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity'] | Sequence[Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity']] = ('influence', 'grad-dot', 'cosine', 'similarity'),
    dampings: Text | Sequence[Text] = ('relative:0.1',),
    subsets: int = 50,
    share: float = 0.5,
    leave_out: Text | None = None,
    remove: int | Sequence[int] = (),
    repeats: int = 1,
    epochs: int = 10,
    steps: int | None = None,
    rate: float = 0.001,
    training: Text | None = None,
    seed: int = 0,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Measure how well scores predict what a network trained on a part of the examples would answer: the linear datamodelling score (LDS).

    Networks like that of the store are trained on random parts of the examples. For each query, the sum of the scores of a part is compared with the margin of the network that was trained on it, by Spearman's correlation over parts; with --leave-out, each part leaves out one example. With --remove, each part leaves out the best examples of one query, and the answer may change. Run the same command again to resume.

    Args:
        store: A store that `attribute cache` wrote of a small network and labelled images.
        images: Labelled images whose answers are attributed: an idx or npy file, binary records of
            CIFAR, or a folder with a sub-folder of PNG files for each class, with keys:
            `FILE:labels=FILE,examples=0-7999`.
        methods: Methods to compare; trak needs a store of margins.
        dampings: Dampings of the methods that have one.
        subsets: Number of networks to train, each on another part.
        share: Share of the examples in each part.
        leave_out: Leave-one-out instead: each part is all examples but one of these, such as `0-19`.
        remove: Brittleness instead: for each query, train without this number of its best examples by
            each method, and without the same number of random examples, and compare which answers
            change.
        repeats: Trainings on each part; their outcomes are averaged.
        epochs: Epochs over the images.
        steps: Number of updates, instead of those of --epochs.
        rate: Largest learning rate of Adam; it falls to a hundredth along a cosine.
        training: Loss, batches, decay, warmup and validation: `batch=64,weight_decay=0.01`, `last`.
        seed: Seed of the parts, of the weights and of the order of examples.
        output: Directory of the results; the same command resumes there, and processes with --shard
            share it.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def recall(
    store: Text,
    *,
    query: StrPath,
    text_field: Text | None = None,
    reading: Text | None = None,
    relevant: Text = 'relevant',
    group: Text | None = None,
    methods: Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity'] | Sequence[Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity']] = ('influence', 'relatif', 'cosine', 'grad-dot', 'bm25', 'similarity'),
    damping: Text | None = None,
    at: int | Sequence[int] = (1, 10, 50),
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure whether methods of attribution find the training examples that are known to be relevant for queries: precision and recall among the k best, compared with chance.

    Each row of the queries has a list of ids of examples in the field `relevant`; queries without any are left out. `attribute world` writes such texts and questions.

    Args:
        store: A store that `attribute cache` wrote.
        query: Queries as rows with a list of the ids of relevant examples.
        text_field: Field or column with the text [default: text].
        reading: How the file of queries is read: `examples=0-99`, `labels=FILE,resize=8x8`.
        relevant: Field with the list of ids.
        group: Field that divides the queries into groups, such as `band`.
        methods: Methods to compare; bm25 and similarity need no gradients.
        damping: Damping of the methods that have one: relative:D or absolute:D [default: relative:0.1].
        at: Numbers k of best examples for precision and recall.
        output: Also write the result as JSON to this file.
        force: Overwrite an existing result.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def score(
    store: Text,
    *,
    query: StrPath,
    method: Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity'] = 'influence',
    damping: Text | None = None,
    target: Literal['loss', 'margin', 'token'] | None = None,
    checkpoints: StrPath | Sequence[StrPath] = (),
    weights: float | Sequence[float] = (),
    model: Text | None = None,
    train: StrPath | None = None,
    text_field: Text | None = None,
    reading: Text | None = None,
    top: int = 20,
    by_layer: bool = False,
    groups: Text | Sequence[Text] = (),
    no_baselines: bool = False,
    output: StrPath | None = None,
    force: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Score the cached training examples for queries: which of them made the model give its answers?

    A positive score is that of a proponent: a step on the loss of the example lowers that of the query. --json has `results`, for each query a list of the best examples with `index` from zero, `id` and `score`, and `opponents`, the worst; with --groups also `groups`, for each pattern such lists.

    Processes with --shard i/N score a part of the store each, of one checkpoint; merged, the result is that of one process. Run `attribute fisher` first, or each computes the curvature of all.

    Args:
        store: A store that `attribute cache` wrote.
        query: Queries: texts in the forms of --train, rows with `prompt` and `completion`, where only
            the completion is scored, or labelled images.
        method: Method that scores the examples.
        damping: Damping of the curvature: relative:D, D times its mean, or absolute:D.
        target: Function of a query to differentiate [default: that of the store].
        checkpoints: Stores of further checkpoints with the same examples: scores are added up (tracin)
            or averaged.
        weights: Weights of the checkpoints, the store's first, such as learning rates [default: 1
            each].
        model: The model, if it has moved since it was cached.
        train: The training examples, if they have moved since they were cached.
        text_field: Field or column with the text [default: text].
        reading: How the file of queries is read: `examples=0-99`, `labels=FILE,resize=8x8`.
        top: Show the N best and the N worst examples for each query.
        by_layer: Also show the contribution of each layer to the scores of the best examples.
        groups: Also rank the examples by these groups of layers: globs such as *mlp*, or regular
            expressions after re:.
        no_baselines: Do not compare with BM25 and the similarity of vectors, which need a pass over the
            examples.
        output: Also write the result as JSON to this file; with --shard a directory of the shard.
        force: Overwrite an existing result.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def self(
    store: Text,
    *,
    damping: Text | None = None,
    wrong: Text | None = None,
    top: int = 20,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure the influence of each cached training example on itself.

    Examples that a model memorised, such as wrong labels and rare texts, have much of it. --json has `results`, the examples with most, and `scores`, that of every example.

    Args:
        store: A store that `attribute cache` wrote.
        damping: Damping of the curvature: relative:D, D times its mean, or absolute:D [default:
            relative:0.1].
        wrong: Indices of examples that are known to be wrong, such as `3,7-9`: report how well
            self-influence finds them, as the area under the curve.
        top: Show the N examples with the most influence on themselves.
        output: Also write the result as JSON to this file.
        force: Overwrite an existing result.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def show(
    store: Text,
    *,
    query: StrPath,
    method: Literal['influence', 'relatif', 'cosine', 'grad-dot', 'tracin', 'trak', 'kfac', 'ekfac', 'bm25', 'similarity'] = 'influence',
    damping: Text | None = None,
    target: Literal['loss', 'margin', 'token'] | None = None,
    checkpoints: StrPath | Sequence[StrPath] = (),
    weights: float | Sequence[float] = (),
    model: Text | None = None,
    train: StrPath | None = None,
    text_field: Text | None = None,
    reading: Text | None = None,
    top: int = 3,
    html: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Show queries with the training examples that most support and oppose the answer of the model.

    Each token of an example is coloured by its share of the score: blue supports the answer, red opposes it. The share of a token is that of the gradient at its position in the text, after the model has read up to this token.

    Args:
        store: A store that `attribute cache` wrote.
        query: Queries: texts in the forms of --train, rows with `prompt` and `completion`, where only
            the completion is scored, or labelled images.
        method: Method that scores the examples.
        damping: Damping of the curvature: relative:D, D times its mean, or absolute:D.
        target: Function of a query to differentiate [default: that of the store].
        checkpoints: Stores of further checkpoints with the same examples: scores are added up (tracin)
            or averaged.
        weights: Weights of the checkpoints, the store's first, such as learning rates [default: 1
            each].
        model: The model, if it has moved since it was cached.
        train: The training examples, if they have moved since they were cached.
        text_field: Field or column with the text [default: text].
        reading: How the file of queries is read: `examples=0-99`, `labels=FILE,resize=8x8`.
        top: Show the N best and the N worst examples for each query.
        html: Write an HTML page with coloured texts.
        force: Overwrite an existing page.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def world(
    *,
    output: StrPath,
    seed: int = 1,
    stories: int = 25000,
    documents: int | None = None,
    questions: int = 30,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Write texts on which the built-in model was trained, and questions about facts with the documents that state them.

    documents.jsonl has `id` and `text`, questions.jsonl `prompt`, `completion`, `band` (rare, medium or frequent) and `relevant`, the ids of the documents: `attribute recall` measures which methods find them. `question`, `choices` and `answer` are for `eval --tasks multiple_choice`.

    Args:
        seed: Seed of the world; `pocket` was trained on the world of seed 1.
        stories: Stories of the world; `pocket` has read 25,000.
        documents: Write the first N documents [default: all].
        questions: Questions of each band of frequency.
        output: Directory of documents.jsonl and questions.jsonl.
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """
