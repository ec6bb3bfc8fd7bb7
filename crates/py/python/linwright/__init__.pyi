"""Linwright: a toolkit for the linear layers of neural networks.

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

from . import molecule as molecule, attribute as attribute, collapse as collapse, flow as flow
from ._errors import FingerprintError as FingerprintError
from ._errors import GateError as GateError
from ._errors import Interrupted as Interrupted
from ._errors import LinwrightError as LinwrightError
from ._errors import RecipeError as RecipeError
from ._errors import ResourceError as ResourceError
from ._errors import UsageError as UsageError
from ._jobs import StrPath, Text
from ._model import Model as Model
from ._model import load as load
from ._operator import Fit as Fit
from ._operator import Operator as Operator
from ._operator import operators as operators
from ._progress import Progress as Progress
from ._records import Record as Record
from ._results import Result as Result
from ._statistics import Statistics as Statistics

__version__: str

def set_threads(threads: int) -> None: ...

def inspect(
    model: Text,
    *,
    spectra: bool = False,
    filter: Text | None = None,
    layers: Text | None = None,
    dtype: Text | None = None,
    by: Literal['name', 'layer', 'tensor'] = 'name',
    html: StrPath | None = None,
    output: StrPath | None = None,
    force: bool = False,
    cache: StrPath | None = None,
    no_cache: bool = False,
    slots: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Report on every tensor of a checkpoint of any architecture and size, one at a time: shape, type, value range, NaN and infinite values, zero rows, duplicates; with --spectra also singular values and effective ranks.

    Args:
        model: A weight file (safetensors, `torch.save` or GGUF), a directory of them, `pocket` for the
            built-in model, or `owner/name[@revision]` on the hub; with --slots also a file that
            describes a small network, or a checkpoint of torchmd-net.
        spectra: Compute the singular values of every matrix, effective ranks, power-law exponents and
            noise edges.
        filter: Only tensors with matching names: a glob such as *q_proj*, or a regular expression after
            re:.
        layers: Only these layers, such as 3,5 or 0-7.
        dtype: Only tensors of this storage type, such as f32, bf16 or q4_k.
        by: Grouping of the tensors: the unit of a table row.
        html: Write an HTML page with heat maps and plots.
        output: Also write the result as JSON to this file; with --shard, the directory of the shard.
        force: Overwrite existing files.
        cache: Store of spectra and other finished pieces [default: $LINWRIGHT_STORE, or linwright/store
            in $XDG_CACHE_HOME or ~/.cache].
        no_cache: Neither read nor store spectra.
        slots: Instead, load the model and list the linear layers that can be replaced.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compress(
    model: Text,
    *,
    output: StrPath,
    method: Text | None = None,
    keep: float | None = None,
    rank: int | None = None,
    size: Text | None = None,
    allocate: Text | None = None,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    plan: StrPath | None = None,
    heal: Literal['ridge', 'trained', 'none'] | None = None,
    recover: Text | None = None,
    calibration: Text | None = None,
    seed: int = 0,
    offload: bool = False,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'native'] = 'auto',
    dtype: Literal['f32', 'f16', 'bf16'] | None = None,
    force: bool = False,
    dry_run: bool = False,
    max_memory: Text | None = None,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Replace linear layers by smaller ones fitted to calibration text, and save the model.

    A plan gives layers different methods and sizes: {"edits": [{"sites": {"roles": ["down"], "layers": [0, 1]}, "method": {"method": "low_rank"}, "size": {"rank": 8}}]}. Of several edits that select a layer, the last counts.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        method: Method of replacement with its options: `asvd`, `low_rank:fit=trained,epochs=16`, a kind
            of operator (`monarch:blocks=8`), `auto` for the best of several in each layer, or `best`
            for the best of several in all: closed forms, kinds of operators and pruning are tried at
            the share --keep, the best with ranks also divided over the layers, and validation windows
            of the calibration text choose. `linwright ls methods` lists them, `linwright ls methods
            NAME` options of one [default: low_rank].
        keep: Share of parameters kept in the targeted layers. A method may only have some sizes: the
            nearest is used, and --dry-run shows it; low rank never keeps more than this share.
        rank: Rank of the factors, for methods that have one.
        size: Size in another unit: `keep=0.8`, `rank=64`, `rho=0.5` (share of the full rank),
            `energy=0.9` (the fewest components with this share of the squared singular values),
            `rate=9` as in LASER (keep (10 - rate) / 10 of the full rank), or `mp` (components above the
            Marchenko–Pastur edge of a random matrix).
        allocate: How the parameters are divided over the layers: the same share for each, by the
            singular values of the weights, or by the loss that an edit of each layer costs on
            calibration text: `uniform`, `spectrum` or `sensitivity` [default: uniform; sensitivity with
            --method auto]. `sensitivity:align=16` makes divided ranks multiples of 16,
            `uniform:align=16` the sizes of pruned layers [default: 8, or 1 if a layer has a side of at
            most 512].
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        plan: Replace what this plan says instead: a JSON or YAML file that gives sites their method and
            size.
        heal: How to refit the next linear layer, which was not replaced, after query, key or value
            (output), gate or up (down) were [default: ridge; none with laser and svd].
        recover: Then train the replaced layers, and nothing else, for this many steps of Adam on the
            loss of the next token over the calibration text. Its validation windows choose the best
            step; without a lower loss there the training is thrown away. `300:rate=0.0003` sets the
            largest step size [default: 0.001].
        calibration: Calibration text: a file, rows with a `text` field as for --text, or `pocket`;
            `task:NAME`, the documents of a task with their correct answers, of its training split if
            --data or its data set has one; `combination`, a sample of six such tasks as in SFSD; or
            `samples`, texts that the model writes itself. It should not overlap with the evaluation
            text, which is told. laser and svd need none. `FILE:num_tokens=4096,seq_len=128` sets the
            largest number of tokens [default: 40000] and the length of a window [default: 256].
        seed: Seed of random initial parameters, and of calibration text that is drawn.
        offload: Keep weights, states and finished layers in files, with one layer in memory at a time
            [default: if the weights in f32 would take more than half of the memory].
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`: `window=256,num_fewshot=2`, `bos=always`.
        output: Output directory.
        form: Form of the saved model; `auto` is the one that most runtimes load and that is no larger
            than necessary.
        dtype: Storage type of the weights [default: that of the model].
        force: Replace the directory if it exists.
        dry_run: Print the plan with its parameters, memory and time, and stop.
        max_memory: Refuse, before any work, what would take more memory; a whole number with a unit:
            8GB, 500MiB.
        shard: Do one of N shares of the work, as `i/N` counted from 0, while others do theirs; the
            first writes output.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compare(
    model: Text,
    *,
    keep: float | Sequence[float] = (0.8, 0.6),
    methods: Text | Sequence[Text] = (),
    no_controls: bool = False,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    heal: Literal['ridge', 'trained', 'none'] | None = None,
    against: Text | Sequence[Text] = (),
    recover: Text | None = None,
    calibration: Text | None = None,
    exclude_overlap: bool = False,
    seed: int | Sequence[int] = 0,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    title: Text = 'Comparison of methods',
    output: StrPath | None = None,
    save_best: StrPath | None = None,
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'native'] = 'auto',
    dtype: Literal['f32', 'f16', 'bf16'] | None = None,
    force: bool = False,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Compare methods of compression on one model: every method at every size, with the dense model, random factors of the same size and rounded weights of the same bytes.

    Scores on the same items, with 95 % intervals of the difference from the dense model; parameters, multiply-adds, bytes and speed. A size that a method cannot have is told, with the nearest. Run the same command again to resume.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        keep: Shares of parameters kept in the targeted layers; an empty list in a recipe, where every
            row has a size of its own or a standard one.
        methods: What is compared, with options in place of the standard ones:
            `svd,modegpt:temperature=0,width`; `all` adds the other kinds of operators, and those that
            are trained [default: closed forms, pruning, and operators that few iterations fit].
            `label=TEXT` names a row, so that a method has several; `size=rank=4` is a size of its own.
        no_controls: Leave out random factors and rounded weights.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        heal: How to refit the next linear layer, which was not replaced, after query, key or value
            (output), gate or up (down) were, for all rows [default: ridge after fits that read
            calibration text and random factors, none after others].
        against: Names of rows with which all others are compared, item by item.
        recover: Then train the replaced or pruned layers of every model, and nothing else, for this
            many steps of Adam, as `compress` does; random factors too. Rounded weights are not trained.
            `300:rate=0.0003` sets the largest step size [default: 0.001].
        calibration: Calibration text: a file, rows with a `text` field as for --text, or `pocket`;
            `task:NAME`, the documents of a task with their correct answers, of its training split if
            --data or its data set has one; `combination`, a sample of six such tasks as in SFSD; or
            `samples`, texts that the model writes itself. It should not overlap with the evaluation
            text, which is told. `FILE:num_tokens=4096,seq_len=128` sets the largest number of tokens
            [default: 12000] and the length of a window [default: 256].
        exclude_overlap: Leave out documents and questions that share words with the calibration text.
        seed: Seed of random factors and initial parameters, and of calibration text that is drawn
            [default: 0]. With several, the report has means and standard deviations.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`: `window=256,num_fewshot=2`, `bos=always`.
        title: Title of the report.
        output: Directory of the comparison [default: runs/compare- and its fingerprint].
        save_best: Save the best model at the first share to this directory. Its figures are those of
            the text that chose it.
        form: Form of the saved model; `auto` is the one that most runtimes load and that is no larger
            than necessary.
        dtype: Storage type of the weights, in which bytes are counted [default: that of the model].
        force: Replace the directory of --save-best if it exists.
        dry_run: List the models with their parameters, estimate the time of fits and evaluations, and
            stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def prune(
    model: Text,
    *,
    output: StrPath,
    method: Text | None = None,
    keep: float | None = None,
    rank: int | None = None,
    size: Text | None = None,
    allocate: Text | None = None,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    plan: StrPath | None = None,
    heal: Literal['ridge', 'trained', 'none'] | None = None,
    recover: Text | None = None,
    calibration: Text | None = None,
    seed: int = 0,
    offload: bool = False,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'native'] = 'auto',
    dtype: Literal['f32', 'f16', 'bf16'] | None = None,
    force: bool = False,
    dry_run: bool = False,
    max_memory: Text | None = None,
    progress: Progress = None,
) -> Result:
    """Remove heads, features, residual dimensions or layers, and save a smaller model that stock runtimes load.

    The same as `linwright compress` with --method width, llm_pruner, slicegpt, drop_layers or modegpt.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        method: Method of replacement with its options: `asvd`, `low_rank:fit=trained,epochs=16`, a kind
            of operator (`monarch:blocks=8`), `auto` for the best of several in each layer, or `best`
            for the best of several in all: closed forms, kinds of operators and pruning are tried at
            the share --keep, the best with ranks also divided over the layers, and validation windows
            of the calibration text choose. `linwright ls methods` lists them, `linwright ls methods
            NAME` options of one [default: width].
        keep: Share of parameters kept in the targeted layers. A method may only have some sizes: the
            nearest is used, and --dry-run shows it; low rank never keeps more than this share.
        rank: Rank of the factors, for methods that have one.
        size: Size in another unit: `keep=0.8`, `rank=64`, `rho=0.5` (share of the full rank),
            `energy=0.9` (the fewest components with this share of the squared singular values),
            `rate=9` as in LASER (keep (10 - rate) / 10 of the full rank), or `mp` (components above the
            Marchenko–Pastur edge of a random matrix).
        allocate: How the parameters are divided over the layers: the same share for each, by the
            singular values of the weights, or by the loss that an edit of each layer costs on
            calibration text: `uniform`, `spectrum` or `sensitivity` [default: uniform; sensitivity with
            --method auto]. `sensitivity:align=16` makes divided ranks multiples of 16,
            `uniform:align=16` the sizes of pruned layers [default: 8, or 1 if a layer has a side of at
            most 512].
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        plan: Replace what this plan says instead: a JSON or YAML file that gives sites their method and
            size.
        heal: How to refit the next linear layer, which was not replaced, after query, key or value
            (output), gate or up (down) were [default: ridge; none with laser and svd].
        recover: Then train the replaced layers, and nothing else, for this many steps of Adam on the
            loss of the next token over the calibration text. Its validation windows choose the best
            step; without a lower loss there the training is thrown away. `300:rate=0.0003` sets the
            largest step size [default: 0.001].
        calibration: Calibration text: a file, rows with a `text` field as for --text, or `pocket`;
            `task:NAME`, the documents of a task with their correct answers, of its training split if
            --data or its data set has one; `combination`, a sample of six such tasks as in SFSD; or
            `samples`, texts that the model writes itself. It should not overlap with the evaluation
            text, which is told. laser and svd need none. `FILE:num_tokens=4096,seq_len=128` sets the
            largest number of tokens [default: 40000] and the length of a window [default: 256].
        seed: Seed of random initial parameters, and of calibration text that is drawn.
        offload: Keep weights, states and finished layers in files, with one layer in memory at a time
            [default: if the weights in f32 would take more than half of the memory].
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`: `window=256,num_fewshot=2`, `bos=always`.
        output: Output directory.
        form: Form of the saved model; `auto` is the one that most runtimes load and that is no larger
            than necessary.
        dtype: Storage type of the weights [default: that of the model].
        force: Replace the directory if it exists.
        dry_run: Print the plan with its parameters, memory and time, and stop.
        max_memory: Refuse, before any work, what would take more memory; a whole number with a unit:
            8GB, 500MiB.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def plan(
    model: Text,
    *,
    keep: float | Sequence[float] = (0.9, 0.8, 0.7, 0.6, 0.5),
    allocate: Text = 'spectrum',
    method: Literal['laser', 'low_rank', 'feature', 'svd', 'whitened_svd', 'asvd', 'swift_svd', 'random'] = 'low_rank',
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    output: StrPath | None = None,
    force: bool = False,
    cache: StrPath | None = None,
    no_cache: bool = False,
    progress: Progress = None,
) -> Result:
    """Plan sizes for the layers of a model from the singular values of its weights, without running it.

    Every weight is decomposed once, for all sizes. The error of a size is the share of the squared singular values that it drops; `compress --plan` carries a plan out.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        keep: Shares of parameters kept in these layers, a plan for each.
        allocate: How the parameters are divided over the layers: by their singular values (`spectrum`),
            or the same share for each (`uniform`). `spectrum:align=16` makes ranks multiples of 16
            [default: 8, or 1 if a layer has a side of at most 512].
        method: Method that the plans name: one with ranks.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        output: Directory for the plans, which `compress --plan` carries out, and the result.
        force: Replace the directory if it exists.
        cache: Directory of finished pieces [default: in the user's cache].
        no_cache: Keep no finished pieces.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def laser(
    model: Text,
    *,
    lname: Literal['k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    lnum: Text | None = None,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    plan: StrPath | None = None,
    rate: float | None = None,
    intervention: Text = 'rank-reduction',
    keep: float | Sequence[float] = (),
    rank: int | Sequence[int] = (),
    size: Text | Sequence[Text] = (),
    seed: int = 0,
    cache: StrPath | None = None,
    no_cache: bool = False,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    output: StrPath | None = None,
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'native'] = 'auto',
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Reduce the rank of weights as LASER does, evaluate the model before and after, and save it; factored weights make it smaller.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        lname: Weights by the names of the paper, as for --roles.
        lnum: Layers as in the paper, as for --layers; -1 means all layers at once.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        plan: Apply these edits instead: a plan in JSON or YAML, such as the one of `linwright compose`.
        rate: Rate of reduction as in the paper, as for --size rate=RATE.
        intervention: What is removed, with how it is computed: `rank-reduction`, `bottom-k`,
            `random-k`, `dropout`, `zero` or `vendi`, such as `vendi:quality` or
            `rank-reduction:part=key`. `linwright ls keys COMMAND` lists the keys.
        keep: Share of the parameters to keep.
        rank: Number of components, or of rows, to keep.
        size: Sizes in other units: `rate=9.9,9` as in LASER (keep (10 - rate) / 10 of the full rank),
            `rho=0.5` (share of the full rank), `energy=0.9` (the fewest components with this share of
            the squared singular values), `mp` (components above the Marchenko–Pastur edge of a random
            matrix), `keep=0.8`, `rank=64`.
        seed: Seed of random numbers.
        cache: Store of decompositions and other finished pieces [default: $LINWRIGHT_STORE, or
            linwright/store in $XDG_CACHE_HOME or ~/.cache].
        no_cache: Neither read nor store decompositions of weights.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`: `window=256,num_fewshot=2`, `bos=always`.
        output: Output directory for the model.
        form: Form of the saved model; `auto` is the one that most runtimes load and that is no larger
            than necessary.
        force: Replace the directory if it exists.
        dry_run: Count the tokens of the tasks, estimate the time, and stop.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def sweep(
    model: Text,
    *,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    intervention: Text = 'rank-reduction',
    keep: float | Sequence[float] = (),
    rank: int | Sequence[int] = (),
    size: Text | Sequence[Text] = (),
    seed: int = 0,
    cache: StrPath | None = None,
    no_cache: bool = False,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    no_split: bool = False,
    no_share: bool = False,
    title: Text = 'Sweep',
    output: StrPath | None = None,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Reduce weights of each layer to each of several sizes, evaluate every combination on the validation items of a task, and the best one on its test items: the first fifth of the items, and the others. A text that is one document is not split.

    Run the same command again to resume.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        intervention: What is removed, with how it is computed: `rank-reduction`, `bottom-k`,
            `random-k`, `dropout`, `zero` or `vendi`, such as `vendi:quality` or
            `rank-reduction:part=key`. `linwright ls keys COMMAND` lists the keys.
        keep: Share of the parameters to keep.
        rank: Number of components, or of rows, to keep.
        size: Sizes in other units: `rate=9.9,9` as in LASER (keep (10 - rate) / 10 of the full rank),
            `rho=0.5` (share of the full rank), `energy=0.9` (the fewest components with this share of
            the squared singular values), `mp` (components above the Marchenko–Pastur edge of a random
            matrix), `keep=0.8`, `rank=64`.
        seed: Seed of random numbers.
        cache: Store of decompositions and other finished pieces [default: $LINWRIGHT_STORE, or
            linwright/store in $XDG_CACHE_HOME or ~/.cache].
        no_cache: Neither read nor store decompositions of weights.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`, and with the metric that chooses and the order of the items:
            `window=256,bos=always`, `metric=acc,shuffle=3`.
        no_split: Evaluate cells on all items, and test none: for the costs of all cells, not for the
            best.
        no_share: Evaluate each cell separately: slower, same results.
        title: Title of the report.
        output: Directory of the run [default: runs/sweep- and its fingerprint].
        dry_run: Count the tokens of the tasks, estimate the time, and stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compose(
    model: Text,
    *,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    intervention: Text = 'rank-reduction',
    keep: float | Sequence[float] = (),
    rank: int | Sequence[int] = (),
    size: Text | Sequence[Text] = (),
    seed: int = 0,
    cache: StrPath | None = None,
    no_cache: bool = False,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    sweep: StrPath | None = None,
    output: StrPath | None = None,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Combine cuts greedily: at each weight, try every size on top of the cuts accepted so far, and keep the best if the metric on validation items does not fall.

    Run the same command again to resume. `linwright laser --plan DIR/edits.json` then writes the model.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        intervention: What is removed, with how it is computed: `rank-reduction`, `bottom-k`,
            `random-k`, `dropout`, `zero` or `vendi`, such as `vendi:quality` or
            `rank-reduction:part=key`. `linwright ls keys COMMAND` lists the keys.
        keep: Share of the parameters to keep.
        rank: Number of components, or of rows, to keep.
        size: Sizes in other units: `rate=9.9,9` as in LASER (keep (10 - rate) / 10 of the full rank),
            `rho=0.5` (share of the full rank), `energy=0.9` (the fewest components with this share of
            the squared singular values), `mp` (components above the Marchenko–Pastur edge of a random
            matrix), `keep=0.8`, `rank=64`.
        seed: Seed of random numbers.
        cache: Store of decompositions and other finished pieces [default: $LINWRIGHT_STORE, or
            linwright/store in $XDG_CACHE_HOME or ~/.cache].
        no_cache: Neither read nor store decompositions of weights.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`, and with the metric that chooses and the order of the items:
            `window=256,bos=always`, `metric=acc,shuffle=3`.
        sweep: Visit weights in the order of this sweep, best first: its `result.json` [default: the
            order of the options].
        output: Directory of the run [default: runs/compose- and its fingerprint].
        dry_run: Count the tokens of the tasks, estimate the time, and stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, while others do theirs; the
            first writes output.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def search(
    model: Text,
    *,
    output: StrPath,
    layers: Text | None = None,
    roles: Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont'] | Sequence[Literal['query', 'key', 'value', 'query_key_value', 'output', 'gate', 'up', 'gate_up', 'down', 'k_proj', 'q_proj', 'v_proj', 'out_proj', 'fc_in', 'fc_up', 'fc_out', 'mlp', 'attn', 'all', 'dont']] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    start: int | None = None,
    ranks: int | Sequence[int] = (),
    delta: float = 0.0,
    growth: float = 1.005,
    calibration: Text | None = None,
    seed: int = 0,
    text: Text | None = None,
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    limit: int | None = None,
    evaluation: Text | None = None,
    no_share: bool = False,
    title: Text = 'Search of ranks',
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'native'] = 'auto',
    dtype: Literal['f32', 'f16', 'bf16'] | None = None,
    force: bool = False,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Give each linear layer the smallest rank that a task or a text allows, from the last layer down, and save the model.

    A rank is accepted if the accuracy on the search documents stays (--tasks), or if the perplexity of the search text stays below a bound (--text). Figures are on the other documents. `linwright compress --plan DIR/plan.json` fits the same ranks again. Run the same command again to resume.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        layers: Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose`
            cut each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the
            other.
        roles: Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default:
            all linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or
            --sites].
        sites: Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
            [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
        ignore: Names of linear layers to leave as they are: a glob or, after `re:`, a regular
            expression.
        start: Index of the first linear layer to visit, counted from zero over all layers; 28 in the
            published code [default: 0].
        ranks: Ranks to try [default: 1, and tenths of the rank at which factors are as large as the
            weight].
        delta: Loss of accuracy that is allowed, as a share of the documents (tasks).
        growth: Growth of the perplexity that is allowed from one linear layer to the next (--text).
        calibration: Calibration text: a file, rows with a `text` field as for --text, or `pocket`;
            `task:NAME`, the documents of a task with their correct answers, of its training split if
            --data or its data set has one; `combination`, a sample of six such tasks as in SFSD; or
            `samples`, texts that the model writes itself. It should not overlap with the documents that
            select, which is told. `FILE:num_tokens=4096,seq_len=128` sets the largest number of tokens
            [default: 40000] and the length of a window [default: 256].
        seed: Seed of calibration text that is drawn.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        limit: Evaluate only the first N documents of each task.
        evaluation: How texts and tasks are read, asked and scored, with keys that are options of
            `eval`, and with the metric that selects, the order of the documents and what follows the
            published code: `window=256,bos=always`, `metric=acc,shuffle=3,compat`.
        no_share: Follow the published steps without shortcuts: slower, same decisions.
        title: Title of the report.
        output: Output directory: the model, `plan.json`, `decisions.jsonl` and the report.
        form: Form of the saved model; `auto` is the one that most runtimes load and that is no larger
            than necessary.
        dtype: Storage type of the weights [default: that of the model].
        force: Replace the directory if it exists.
        dry_run: Count the tokens of the documents, estimate the time, and stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, while others do theirs; the
            first writes output.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def evaluate(
    model: Text,
    *,
    text: Text | None = None,
    more_texts: StrPath | Sequence[StrPath] = (),
    text_field: Text | None = None,
    tasks: Text | Sequence[Text] = (),
    data: Text | Sequence[Text] = (),
    num_fewshot: int | None = None,
    laser_scoring: Literal['correct', 'compat'] = 'correct',
    laser_new_tokens: int | None = None,
    laser_split: Literal['all', 'validation', 'test'] = 'all',
    fewshot_seed: int = 1234,
    bootstrap_iters: int = 100000,
    apply_chat_template: bool = False,
    fewshot_as_multiturn: bool = False,
    date: Text | None = None,
    chat_template_args: Text | None = None,
    system_instruction: Text | None = None,
    max_length: int | None = None,
    batch_size: Text = 'auto',
    window: int = 512,
    stride: int | None = None,
    second_half: bool = False,
    bos: Literal['auto', 'always', 'never'] = 'auto',
    join: Literal['separate', 'space', 'blank_line'] = 'separate',
    samples: Text | None = None,
    limit: int | None = None,
    max_memory: Text | None = None,
    log_samples: StrPath | None = None,
    overlap_with: StrPath | Sequence[StrPath] = (),
    dtype: Literal['auto', 'f32', 'bf16', 'f16'] = 'auto',
    baseline: Text | None = None,
    save_logits: StrPath | None = None,
    max_ppl: float | None = None,
    output: StrPath | None = None,
    force: bool = False,
    dry_run: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Measure perplexity on text and accuracy on questions.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        text: Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
            CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
        more_texts: More texts for perplexity, each a task of its own: `text:wiki` for `wiki.jsonl`.
        text_field: Field or column with the text, in all text files of the command [default: text].
        tasks: Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
            `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
            `pocket`, those of the built-in model.
        data: Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE`
            of multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
            model.
        num_fewshot: Number of few-shot examples [default: that of the task].
        laser_scoring: Scoring of `laser_` tasks: `correct` scores the generated answer, `compat`
            reproduces the paper's code, including its defects.
        laser_new_tokens: Largest number of generated tokens in `laser_` tasks with generated answers;
            with 1 the most likely token must be the answer [default: that of the data set].
        laser_split: Records of `laser_` tasks to use: `validation` is the first fifth, in the order of
            the files, `test` the rest.
        fewshot_seed: Seed of the few-shot examples.
        bootstrap_iters: Bootstrap iterations for standard errors that have no formula.
        apply_chat_template: Format prompts with the model's chat template.
        fewshot_as_multiturn: With the chat template, make each few-shot example a user and an assistant
            message [default: all in one message].
        date: Date that the chat template gets, as YYYY-MM-DD, or with a time as YYYY-MM-DDTHH:MM
            [default: today in UTC, where it asks for one].
        chat_template_args: Variables of the chat template, as a JSON object: `{"enable_thinking":
            false}`; `tools` and `documents` are among them.
        system_instruction: System prompt before each prompt.
        max_length: Context length: longest input in tokens [default: that of the model].
        batch_size: Batch size in thousands of tokens; `auto` is 4. It changes speed and memory, but no
            result.
        window: Window of perplexity, in tokens.
        stride: Stride from one window to the next, in tokens [default: the window].
        second_half: Count only the tokens after the first half of each window, as `llama-perplexity`
            does: whole windows of one text side by side, and `--limit` is their number.
        bos: Whether documents, and windows of texts, start with the beginning-of-sequence token; `auto`
            follows the tokenizer.
        join: Whether documents are scored separately, or joined by a space or a blank line.
        samples: Evaluate only the documents with these indices, for the named tasks: `{"TASK": [0,
            7]}`, as JSON or as a file.
        limit: Evaluate only the first N documents of each task.
        max_memory: Memory limit of the whole program: `8GB`, `500MiB`, or bytes. Batches are made small
            enough; texts that cannot fit are refused before anything is computed.
        log_samples: Write requests and responses to `samples_TASK.jsonl` in this directory.
        overlap_with: Calibration text of the model; documents of tasks that share 13-grams of words
            with it are reported.
        dtype: Data type of weights in memory; `auto` is the storage type. Weights are rounded if it has
            fewer bits; computation is always in f32.
        baseline: Also evaluate this model, as the dense baseline, same forms as MODEL; or compare with
            this file of log-probabilities, of `--save-logits` or of `llama-perplexity`.
        save_logits: Write the log-probabilities of the text to this file, for `--baseline` and for
            `llama-perplexity`: second halves of windows, `--limit` of them, in 16 bits a number.
        max_ppl: Fail with exit code 4 if the perplexity is above this.
        output: Also write the result as JSON to this file.
        force: Overwrite existing results and samples.
        dry_run: Count the tokens of the tasks, estimate the time, and stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def run(
    *,
    recipe: StrPath | None = None,
    output: StrPath | None = None,
    model: Text | None = None,
    set: Text | Sequence[Text] = (),
    dry_run: bool = False,
    print_schema: bool = False,
    print_reference: bool = False,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Run a recipe: capture, fit, evaluate, report. Run the same command again to resume.

    Args:
        recipe: A recipe file, or the name of a built-in one (`linwright ls presets`).
        output: Directory of the run [default: runs/ and the recipe's name and fingerprint].
        model: Use this model instead of the recipe's: a directory, `pocket` or `owner/name[@revision]`.
        set: Replace a value of the recipe: `model=pocket`, `evaluation.window=256`, `compress-1.keep=0.7`,
            whose value is YAML. May be given more than once.
        dry_run: Check the recipe against the model, estimate the cost of each row, and stop.
        print_schema: Print the JSON schema of recipes of jobs, and stop.
        print_reference: Print the page on recipes, in Markdown, and stop.
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def fit(
    target: Text,
    *,
    inputs: StrPath | None = None,
    tensor: Text | None = None,
    inputs_tensor: Text | None = None,
    operator: Text | Sequence[Text] = (),
    keep: float | Sequence[float] = (),
    starts: int = 4,
    iterations: int = 400,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Approximate a matrix by structured operators: error against parameters.

    The target is a matrix, or rows and what they become. Every kind of operator that has this shape is fitted by least squares at several shares of the parameters, in closed form where there is one; products of two diagonals and a circulant are recovered exactly. The output directory has the operators as safetensors.

    Args:
        target: A matrix (outputs, inputs): a numpy array, or a file of tensors with --tensor; with
            --inputs, the rows (samples, outputs) that these become. `normal:N`, `orthogonal:N`,
            `permutation:N` are drawn from --seed, `exponential:N` is exp(-|i - j| / 4).
        inputs: Rows (samples, inputs): the operator is fitted to map them to the target, in the metric
            of their second moment.
        tensor: Name of the matrix in a file of tensors [default: its only one].
        inputs_tensor: Name of the rows in the file of --inputs [default: its only tensor].
        operator: What is fitted: kinds of `linwright ls operators`, each at every share, `cd:M` for M
            diagonals and M - 1 circulants, or an operator with all its options in JSON [default: all
            linear kinds].
        keep: Shares of the parameters of a dense matrix [default: 0.125,0.25,0.5,0.75].
        starts: Starts of fits that have no closed form; the best is kept.
        iterations: Largest number of iterations of a start.
        seed: Seed of random starts.
        output: Output directory: the operators, the errors, and a report.
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def export(
    model: Text,
    *,
    output: StrPath,
    adapter: StrPath | None = None,
    form: Literal['auto', 'dense', 'factored', 'width', 'blocks', 'lora', 'native', 'gguf'] = 'auto',
    dtype: Literal['f32', 'f16', 'bf16'] | None = None,
    shard_size: Text | None = None,
    base: Text | None = None,
    rank: int | None = None,
    energy: float | None = None,
    base_model: Text | None = None,
    results: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Save a model in a form that other runtimes load, with a model card and a record of its provenance.

    Args:
        model: A checkpoint directory, a `.gguf` file, or `pocket` for the built-in model.
        output: Output directory.
        adapter: A LoRA adapter of PEFT that is merged into the model first: its folder.
        form: Form of the saved model.
        dtype: Storage type of the weights [default: that of the model; f32 for adapters].
        shard_size: Largest weight file: `5GB`, `500MB`, `2GiB`, or bytes [default: 5GB; gguf is one
            file].
        base: The model that an adapter belongs to (lora).
        rank: Largest rank of the adapter of a layer (lora).
        energy: Share of the squared singular values of each weight difference to keep, above 0, at most
            1 (lora).
        base_model: Name of the original model, `owner/name`, for the model card.
        results: Results of `linwright eval --json`, for the model card.
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def import_model(
    model: StrPath,
    *,
    output: StrPath,
    tokenizer: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Convert a llama2.c checkpoint and its tokenizer to a Hugging Face directory, or tensors of other programs to a directory of weights.

    With --tokenizer, MODEL is a llama2.c `.bin` file. Without, MODEL is a folder of raw files with `tensors.json` ({"tensors": [{name, file, shape, dtype, byte_order, transpose, offset}]}), a folder with a known layout, a numpy `.npy` or `.npz` file, or a weight file; the result is `model.safetensors`, without a configuration.

    Args:
        model: The weights.
        tokenizer: The tokenizer of a llama2.c model, `.bin`.
        output: Output directory.
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def train_lm(
    *,
    output: StrPath,
    text: Text | None = None,
    text_field: Text | None = None,
    separator: Text | None = None,
    documents: Text | None = None,
    without: Text | None = None,
    held_out: StrPath | None = None,
    held_out_share: float = 0.05,
    vocab: int = 4096,
    tokenizer: StrPath | None = None,
    architecture: Text | None = None,
    steps: int | None = None,
    rate: float | None = None,
    dtype: Literal['f32', 'f16', 'bf16'] = 'f32',
    training: Text | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    checkpoint: StrPath | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Train a language model from random weights: with --text, tokenizer and model on any text, otherwise the built-in model on its generated texts.

    The documents of a text have indices from zero, in the order of the file. A share of them is held out and gives the perplexity; --documents and --without choose among the others, so that models trained with and without some documents can be compared (with --tokenizer to keep the tokens). The same command gives the same bytes; interrupted, it resumes.

    Args:
        text: Text to train on, instead of the built-in model and its world: a plain file, rows with a
            `text` field (JSONL, JSON, CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or
            `pocket`.
        text_field: Field or column with the text of a document [default: text].
        separator: Text between two documents of a plain file, such as `<|endoftext|>` [default: a
            document ends at the first blank line after 1024 bytes, or end of line after 4096].
        documents: Train on these documents only: indices from zero such as `0-99,120`, or a file of
            them. Held-out documents among them stay held out.
        without: Train without these documents.
        held_out: Another text for the held-out loss, read like the first; no document of that is held
            out then.
        held_out_share: Share of all documents that is held out, at least one: the same ones whatever is
            trained on.
        vocab: Tokens of a new tokenizer, byte-level BPE trained on the training documents.
        tokenizer: Directory with the tokenizer to use instead of a new one, such as that of another
            model trained on part of the text.
        architecture: Shape of the model: `hidden=256,layers=5`.
        steps: Number of updates [default: those of --epochs].
        rate: Largest learning rate of AdamW; it falls to a hundredth along a cosine [default: 0.003,
            and above 256 features of the residual stream less in proportion].
        dtype: Storage type of the weights.
        training: Batches, warmup and validation: `batch_tokens=4096,warmup=100`.
        output: Output directory.
        seed: Seed of initial weights and batches, and of the held-out documents of a text or else of
            the generated world.
        epochs: Epochs over the training text [default: 1].
        checkpoint: Training checkpoint, which stays when the model is written [default: in the user's
            store, until then].
        force: Replace the directory if it exists.
        dry_run: Generate texts and tokenizer, print their hashes, and stop; with --text, print size,
            steps, time and memory, for which a few steps are made.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def train_net(
    net: Text,
    *,
    images: StrPath,
    output: StrPath,
    held_out_share: float | None = None,
    epochs: int = 10,
    steps: int | None = None,
    rate: float = 0.001,
    training: Text | None = None,
    seed: int = 0,
    checkpoint: StrPath | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Train a small network on labelled images from random weights.

    The output directory is a model for `run` with a recipe of images, in which its linear layers and convolutions are replaced and healed. A share of the images is held out for the curve. The same command gives the same bytes; interrupted, it resumes.

    Args:
        net: The layers: a file that describes them (YAML or JSON), or `mlp:512,256` for linear layers
            of these widths with ReLU between them, one output for each class and normalised pixels.
        images: Labelled images: an idx or npy file, binary records of CIFAR, or a folder with a
            sub-folder of PNG files for each class, with keys: `FILE:labels=FILE,examples=0-7999`.
        held_out_share: Share of the images held out for the curve and the choice of the best step, at
            least one image [default: 0.1].
        epochs: Epochs over the images.
        steps: Number of updates, instead of those of --epochs.
        rate: Largest learning rate of Adam; it falls to a hundredth along a cosine.
        training: Loss, batches, decay, warmup and validation: `batch=64,weight_decay=0.01`, `last`.
        output: Output directory.
        seed: Seed of initial weights, of the held-out images and of the order of the others.
        checkpoint: Training checkpoint, which stays when the network is written [default: in the user's
            store, until then].
        force: Replace the directory if it exists.
        dry_run: Print size and steps, and stop.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def eval_net(
    net: Text,
    *,
    images: StrPath,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure accuracy and cross-entropy of a small network on labelled images.

    Args:
        net: A directory that train-net wrote, or a file that describes the layers and names their
            weights.
        images: Labelled images: an idx or npy file, binary records of CIFAR, or a folder with a
            sub-folder of PNG files for each class, with keys: `FILE:labels=FILE,examples=0-7999`.
        output: Also write the result as JSON to this file.
        force: Overwrite an existing result.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compare_net(
    net: Text,
    *,
    calibration: StrPath,
    images: StrPath,
    keep: float | Sequence[float] = (0.8, 0.6),
    methods: Text | Sequence[Text] = (),
    no_controls: bool = False,
    layers: Text | None = None,
    roles: Text | Sequence[Text] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    heal: Text | Sequence[Text] = (),
    against: Text | Sequence[Text] = (),
    seed: int | Sequence[int] = 0,
    title: Text = 'Comparison of methods',
    dry_run: bool = False,
    output: StrPath | None = None,
    shard: str | None = None,
    progress: Progress = None,
) -> Result:
    """Compare methods of compression on a small network: every method at every size, with the dense network, random factors of the same size and rounded weights of the same bytes.

    Cross-entropy and accuracy on the same images, with 95 % intervals of the difference from the dense network; parameters, multiply-adds, bytes and speed. A size that a method cannot have is reported, with the nearest. Run the same command again to resume.

    Args:
        net: A directory that train-net wrote, or a file that describes the layers and names their
            weights.
        calibration: Labelled images to fit to, of the same format and size as --images, with keys:
            `FILE:labels=FILE,examples=0-7999,batch=50`; `validation=0.1` is the share of them for
            validation.
        images: Labelled images on which networks are scored: an idx or npy file, binary records of
            CIFAR, or a folder with a sub-folder of PNG files for each class, with keys:
            `FILE:labels=FILE,examples=0-7999`.
        keep: Shares of parameters kept in the targeted layers; an empty list in a recipe, where every
            row has a size of its own or a standard one.
        methods: What is compared, with options in place of the standard ones: `svd,monarch:blocks=4`;
            `all` adds the other kinds of operators, and those that are trained [default: closed forms,
            and operators that few iterations fit]. `label=TEXT` names a row, so that a method has
            several; `size=rank=4` is a size of its own.
        no_controls: Leave out random factors and rounded weights.
        layers: Layers to replace, counted from zero: `1`, `0,2`, `0-1` [default: all]. Sets of layers,
            divided by slashes, are replaced one after the other: `0/1/0-1`.
        roles: Roles of linear layers to replace, such as conv in a network of images, or mixing in a
            potential [default: all].
        sites: Names of linear layers to replace: a glob such as `fc*`, or a regular expression after
            `re:` [default: all].
        ignore: Names of linear layers to leave unchanged: a glob or, after `re:`, a regular expression.
        heal: Linear layers to refit after every replacement: `roles=linear,layers=2`, with
            `ridge=0.001` or `fit=trained,epochs=4` [default: none].
        against: Names of rows with which all others are compared, item by item.
        seed: Seed of random factors and initial parameters, and of the order of what is fitted to
            [default: 0]. With several, the report has means and standard deviations.
        title: Title of the report.
        dry_run: List the rows with their parameters, estimate the time of the fits, and stop.
        output: Directory of the comparison [default: runs/compare-net- and its fingerprint].
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def select(
    model: Text,
    *,
    tensor: Text | None = None,
    sites: Text | None = None,
    rank: int | None = None,
    keep: float | None = None,
    size: Text | None = None,
    quality: bool = False,
    minimise: bool = False,
    gamma: Text = '1',
    order: Literal['1', '2'] = '1',
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Select the most diverse rows of a matrix, greedily by the Vendi score of a Gaussian kernel, and report the residual of the matrix after projection onto their span.

    Args:
        model: A weight file, a directory of them, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        tensor: Name of the tensor, which must be a matrix.
        sites: Linear layer by its name in `inspect --slots`; the rows of its weight are output
            features.
        rank: Number of rows to select.
        keep: Number of rows such that two factors have this share of the parameters.
        size: Number of rows in another unit: `rho=0.5` (share of the smaller side, rounded down),
            `rate=9` as in LASER (the share (10 - rate) / 10 of the smaller side).
        quality: Weight the score by quality, the mean of exp(-|x|²) over the rows, which prefers rows
            of small norm.
        minimise: Select the least diverse rows.
        gamma: Parameter G of the kernel exp(-G |x - y|² / 2): a number, or `median` for one over the
            median squared distance.
        order: Order of the Vendi score: 1 is Shannon entropy; 2 needs no eigenvalues and is faster.
        output: Also write the result as JSON to this file.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def merge(
    directories: StrPath | Sequence[StrPath],
    *,
    output: StrPath,
    fill: bool = False,
    progress: Progress = None,
) -> Result:
    """Merge what the shards of a job computed, and finish the job.

    Commands with --shard i/N compute a part of their work each, on one machine or on several, and keep it in their output directories. The merged result has the same bytes as that of a single command. A directory may be given twice; what a killed shard did not compute is computed now.

    Args:
        directories: Output directories of all shards of one job, in any order, or the folder that holds
            them.
        output: Output of the job.
        fill: Also merge if shards are missing, and compute what they would have done.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def reproduce(
    directory: StrPath,
    *,
    output: StrPath,
    reuse: bool = False,
    progress: Progress = None,
) -> Result:
    """Run the job of a directory again, and compare the files.

    The same version of the program on the same instruction set gives the same bytes in all files but `measured.json`, which holds times and machine. Nothing that an earlier command had computed is used: no checkpoint, and no finished pieces. The exit code is 1 if a file differs.

    Args:
        directory: A directory that this program wrote: of a recipe, or of a model.
        output: Output directory.
        reuse: Use finished pieces of the user's store, which are counted in the report. Without it
            everything is computed again.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def generate(
    model: Text,
    *,
    prompt: Text | Sequence[Text] = (),
    prompt_file: StrPath | None = None,
    bos: Literal['auto', 'always', 'never'] = 'auto',
    max_new_tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    dtype: Literal['auto', 'f32', 'bf16', 'f16'] = 'auto',
    seed: int = 0,
    stop: Text | Sequence[Text] = (),
    progress: Progress = None,
) -> Result:
    """Generate continuations of prompts, greedily unless the model or an option says otherwise.

    Args:
        model: A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
            `owner/name[@revision]` on the hub.
        prompt: The prompt; may be given more than once.
        prompt_file: A text file with one more prompt.
        bos: Whether prompts start with the beginning-of-sequence token.
        max_new_tokens: Largest number of new tokens [default: that of the model, or 128].
        temperature: Sampling temperature, by which logits are divided; 0 is greedy decoding [default:
            that of the model, or 0].
        top_k: Sample only from this many of the most likely tokens.
        top_p: Sample only from the most likely tokens with this total probability.
        min_p: Sample only from tokens with at least this share of the largest probability.
        repetition_penalty: Penalty of tokens that already occurred: positive logits are divided by it,
            negative ones multiplied.
        dtype: Data type of weights in memory; `auto` is the storage type. Weights are rounded if it has
            fewer bits; computation is always in f32.
        seed: Seed of sampling.
        stop: A stop string; may be given more than once.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """
