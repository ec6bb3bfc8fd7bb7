"""What the scripts of golden vectors share: tiny random checkpoints, and how results are written.

A parameter is never special: norm weights lie around one (around zero where the layer adds the one
itself), biases are not zero, and projections keep the size of what they are given times 1.4, so that
attention is far from uniform and every term shows in the results.
"""

import contextlib
import copy
import io
import json
import pathlib
import tempfile

import torch
import transformers

SEED = 20240607
GAIN = 1.4


def build(head, config, generator):
    """A model of the class that `head` picks, with random parameters and eager attention."""
    config._attn_implementation = "eager"
    model = head.from_config(config).eval()
    randomise(model, generator)
    return model


def randomise(model, generator):
    """Gives every parameter random values; tied ones once."""
    seen = set()
    for module in model.modules():
        name = type(module).__name__
        for key, parameter in module.named_parameters(recurse=False):
            if parameter in seen:
                continue
            seen.add(parameter)
            noise = torch.randn(parameter.shape, generator=generator)
            if "Norm" in name:
                centre = 1.0 if key == "weight" and not name.startswith("Gemma") else 0.0
                value = centre + 0.25 * noise
            elif isinstance(module, torch.nn.Embedding):
                # Gemma multiplies its embeddings by the root of their width.
                value = (0.1 if "Scaled" in name else 0.5) * noise
            elif parameter.dim() == 1:
                value = 0.3 * noise
            else:
                # A Conv1D keeps its weight as (in, out), a Linear as (out, in).
                inputs = parameter.shape[0] if name == "Conv1D" else parameter.shape[1]
                value = GAIN / inputs**0.5 * noise
            parameter.data = value


def save(model, path):
    """Writes the checkpoint as transformers names its tensors in files; returns its config.json."""
    # Its progress bar would fill the log.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        model.save_pretrained(folder)
        saved = pathlib.Path(folder, "model.safetensors")
        path.write_bytes(saved.read_bytes())
        config = json.loads(pathlib.Path(folder, "config.json").read_text())
    path.chmod(0o644)
    return config


def rounded(tensor):
    """Nested lists with seven digits, as many as an f32 holds."""
    if tensor.dim() > 1:
        return [rounded(row) for row in tensor]
    return [float(f"{value:.7g}") for value in tensor.tolist()]


def difference(found, expected):
    """Largest difference, relative to the largest expected value."""
    return ((found - expected).abs().max() / expected.abs().max()).item()


def chosen_positions(length, most=9):
    """At most `most` positions of a sequence, both ends among them."""
    if length <= most:
        return list(range(length))
    return [round(i * (length - 1) / (most - 1)) for i in range(most)]


def every_parameter_matters(model, loss, exempt=()):
    """Asserts that each parameter has a gradient, so that a mistake in it would show."""
    model.zero_grad()
    loss.backward()
    for name, parameter in model.named_parameters():
        if not any(name.endswith(end) for end in exempt):
            size = 0.0 if parameter.grad is None else parameter.grad.abs().max().item()
            assert size > 1e-6, f"{name} has no influence: {size:e}"
    model.zero_grad(set_to_none=True)


def twisted(model, config, changes):
    """The same parameters under a changed configuration, in f64."""
    other = copy.deepcopy(config)
    for name, value in changes.items():
        assert hasattr(other, name), name
        setattr(other, name, value)
    different = type(model)(other).eval()
    missing, _ = different.load_state_dict(model.state_dict(), strict=False)
    assert not missing, f"{changes} needs {missing}"
    return different.double()


def header(script, config):
    """The fields that every record begins with."""
    return {
        "script": script,
        "versions": {"torch": torch.__version__.split("+")[0],
                     "transformers": transformers.__version__},
        "seed": SEED,
        "config": config,
    }


def write(path, record):
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")
