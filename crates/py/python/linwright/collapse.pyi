"""Neural collapse of features, and where training leads.

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

from ._jobs import StrPath, Text
from ._progress import Progress
from ._results import Result

def measure(
    *,
    features: StrPath | None = None,
    head: StrPath | None = None,
    classes: int | None = None,
    sums: StrPath | None = None,
    save_sums: StrPath | None = None,
    traces: bool = False,
    ood: StrPath | None = None,
    net: StrPath | None = None,
    images: StrPath | None = None,
    resamples: int = 200,
    no_baselines: bool = False,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure neural collapse of labelled features, or of every layer of a small network on labelled images.

    NC1: variability within classes. NC2: distance of the means from a simplex. NC3: alignment of head and means. NC4: agreement of head and nearest mean. NC5: orthogonality to out-of-distribution features. Each with all its variants, next to the least possible value, to that of random frames and of shuffled labels, and to bootstrap intervals by class.

    Args:
        features: Safetensors with `features` (rows, d), `labels` (rows) and, if there is a head, `head`
            (classes, d) and `bias` (classes).
        head: A file with `head` and `bias`, instead of those in the file of features.
        classes: Number of classes [default: rows of the head, or one more than the largest label].
        sums: Use the means of these sums, which may include other rows, instead of those of the
            features; without --features, only the metrics of sums are computed.
        save_sums: Write the sums over the features to this file, for `collapse merge` and --sums.
        traces: Keep no scatter, 16 d x d bytes: without it there is no nc1_pinv. Layers of a network
            with more than 4096 features never have it.
        ood: A file with `features` of out-of-distribution inputs, for nc5_cos.
        net: Instead of features, a directory that train-net wrote: all its layers are measured.
        images: Labelled images for the network, as for eval-net: `FILE:labels=FILE,examples=0-7999`.
        resamples: Bootstrap draws of classes for 95 % intervals; 0 for none.
        no_baselines: Do not measure random frames and shuffled labels for comparison.
        seed: Seed of draws, frames and shuffles.
        output: Also write the result as JSON to this file, which `linwright report` renders.
        force: Overwrite existing files.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def merge(
    sums: StrPath | Sequence[StrPath],
    *,
    head: StrPath | None = None,
    resamples: int = 200,
    no_baselines: bool = False,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Add sums over parts of the data, and measure collapse of all of them.

    The result has the bits of one pass over all rows, in any order of the parts; with more than 256 features, if all parts but the last have a multiple of 256 rows.

    Args:
        sums: Files that `collapse measure --save-sums` or `collapse merge` wrote.
        head: A file with `head` and `bias`.
        resamples: Bootstrap draws of classes for 95 % intervals; 0 for none.
        no_baselines: Do not measure random frames and shuffled labels for comparison.
        seed: Seed of draws, frames and shuffles.
        output: Write the merged sums to this file.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def ufm(
    *,
    classes: int = 10,
    per_class: int | None = None,
    strength: Text | None = None,
    loss: Literal['cross-entropy', 'squared-error', 'squared-error-bias'] = 'cross-entropy',
    features: StrPath | None = None,
    check: int = 0,
    dimension: int | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> Result:
    """The optimum of regularised training with features free to choose, in closed form.

    Below the threshold c = K sqrt(n L_W L_H) = 1 features collapse to a simplex, or without bias and with squared errors to an orthogonal frame; from there on penalties are so strong that features vanish. With --features, norms and logits of a trained head are compared with it: is the classifier at its regularised optimum?

    Args:
        classes: Number of classes.
        per_class: Samples of each class [default: the mean of --features, or 1].
        strength: Penalties of the head and of the features: `head=0.01,features=0.01`.
        loss: Loss: squared errors with a bias that is not penalised lead to a simplex, without one to
            an orthogonal frame.
        features: Compare a trained head: a safetensors file with `features`, `labels` and `head`, as
            for measure.
        check: Check by minimisation from this many random starts.
        dimension: Features of the check [default: K].
        seed: Seed of the starts.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def gufm(
    *,
    classes: int = 10,
    strength: float = 0.005,
    norm: float | None = None,
    dimension: int | None = None,
    loss: Literal['cross-entropy', 'squared-error', 'squared-error-bias'] = 'cross-entropy',
    check: int = 0,
    seed: int = 0,
    progress: Progress = None,
) -> Result:
    """The optimum of a penalised head on features of mean zero and given length, as behind a LayerNorm, in closed form.

    No network with such features has an objective below it on balanced classes; deep regularised ResNets and transformers approach it.

    Args:
        classes: Number of classes.
        strength: Penalty L/2 |W|² of the head.
        norm: Length of features [default: the square root of --dimension, as after a LayerNorm, or 1].
        dimension: Number of features.
        loss: Loss of the logits.
        check: Check by minimisation from this many random starts.
        seed: Seed of the starts.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def depth(
    *,
    architecture: Text = 'rn1',
    depths: int | Sequence[int] = (2, 3, 5, 8, 13, 21, 34),
    seeds: int = 1,
    strength: Text = '0.005',
    loss: Literal['cross-entropy', 'squared-error', 'squared-error-bias'] = 'cross-entropy',
    steps: int = 1200,
    rate: float = 0.005,
    features: StrPath | None = None,
    images: StrPath | None = None,
    texts: StrPath | Sequence[StrPath] = (),
    classes: int = 4,
    per_class: int = 15,
    noise: float = 1.0,
    tokens: int | None = None,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Train regularised reference networks of several depths, and report how collapse depends on depth.

    With one map for each block and a constant penalty, networks approach the optimum of `collapse gufm` as they get deeper; with two maps only if the penalty shrinks with depth (--strength 0.005:rule=over-depth). Slopes are of logarithms, with intervals over seeds. Interrupted, the same command resumes with the networks that are trained.

    Args:
        architecture: Residual networks of one or two maps for each block, or transformers: with one map
            in attention and MLP, with two in the MLP, with two in both. With their shape:
            `rn2:width=24,norm=1`.
        depths: Depths: blocks, and the head.
        seeds: Number of networks of each depth, with different random parameters.
        strength: Penalty S/2 |p|² of all parameters, with keys: `0.01:rule=over-depth,head=0.005`.
        loss: Loss of the logits.
        steps: Number of updates of each network, with all examples.
        rate: Step size of Adam, which falls along a cosine to a fiftieth.
        features: A safetensors file with `features` and `labels` as inputs, instead of generated
            inputs.
        images: Labelled images as inputs, --per-class of each class, drawn: an idx or npy file, binary
            records of CIFAR, or a folder with a sub-folder of PNG files for each class, with keys:
            `FILE:labels=FILE,resize=8x8`.
        texts: Texts as inputs, each a class: --per-class pieces of consecutive words, drawn, whose
            words are random vectors.
        classes: Generated classes, of normal centres.
        per_class: Generated or drawn examples of each class.
        noise: Deviation of generated examples from their centre.
        tokens: Tokens of an example, for transformers; of images equal parts [default: 6].
        seed: Seed of data and parameters.
        output: Also write the result as JSON to this file, which `linwright report` renders; with
            --shard a directory of trained networks for `linwright merge`.
        force: Overwrite an existing file.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def lm(
    model: Text,
    *,
    text: Text,
    text_field: Text | None = None,
    layers: Text | None = None,
    window: int = 256,
    num_tokens: int | None = None,
    min_count: int = 2,
    max_count: int | None = None,
    scatter: bool = False,
    decisions: bool = False,
    resamples: int = 200,
    no_baselines: bool = False,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure neural collapse of a language model by layer: contexts are samples, next tokens their classes.

    Of an encoder, which predicts no next token, the classes are the tokens themselves. One forward pass adds the hidden states of all layers to sums by class, 16 bytes for each class, feature and layer, and the same for permuted classes, the baseline. With more classes than features no simplex exists: compare nc2_etf_err_M with its floor and with that of random frames.

    Args:
        model: A directory, a GGUF file, `pocket` for the built-in model, or `owner/name[@revision]` on
            the hub.
        text: Text: a plain file as one document, rows with a `text` field (JSONL, JSON, CSV, TSV,
            Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text [default: text].
        layers: Measure only the outputs of these layers, such as 3,5 or 0-7, not the input of the first
            layer; the input of the head is always measured.
        window: Tokens of a window: contexts begin at its start.
        num_tokens: Use at most this many tokens of the text.
        min_count: Leave out tokens that occur as the next token less often.
        max_count: Leave out tokens that occur as the next token more often.
        scatter: Also keep the scatter within classes, d x d for each layer, for nc1_pinv.
        decisions: Run the text once more, for the agreement with the nearest mean (NC4).
        resamples: Bootstrap draws of classes for 95 % intervals; 0 for none.
        no_baselines: Do not measure random frames and shuffled labels for comparison.
        seed: Seed of draws, frames and shuffles.
        output: Also write the result as JSON to this file, which `linwright report` renders.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def watch(
    results: StrPath | Sequence[StrPath],
    *,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Put the collapse of several checkpoints into one table, with plots over checkpoints and layers.

    Measure each checkpoint when it is written, and give all results, or the table so far and the new one.

    Args:
        results: Results of `collapse measure` or `collapse lm`, or of an earlier `collapse watch`,
            whose rows come first; a checkpoint is named after its file, without the extension.
        output: Also write the result as JSON to this file, which `linwright report` renders.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def relate(
    *,
    measured: StrPath | Sequence[StrPath],
    sweeps: StrPath | Sequence[StrPath],
    metric: Text = 'nc1_quotient',
    draws: int = 10000,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Correlate the collapse of the input of each layer with what changing the layer costs in a sweep, in ranks over layers.

    For comparison: the same with layers in random order and with permuted classes, the correlation with the number of the layer instead of the metric, the partial correlation beyond it, and the middle 95 % over resampled layers. A model has few layers: read the range of random orders first.

    Args:
        measured: Results of `collapse lm` of one or several models, with all layers.
        sweeps: The directory of a sweep of each of these models, or its `result.json`, in the same
            order, which changed each layer separately.
        metric: Metric of the input of a layer.
        draws: Random orders of layers, and resamples of layers.
        seed: Seed of the draws.
        output: Also write the result as JSON to this file, which `linwright report` renders.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """
