"""Operators as modules of torch, and statistics of any of its networks.

    import linwright.torch as lt

    stats = lt.capture(model, loader, ["classifier.3"])
    fit = stats["classifier.3"].fit("monarch")
    lt.replace(model, "classifier.3", fit)

All of it computes on the CPU, in float32 or float64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np
import torch
from torch import nn

from ._operator import Fit, Operator
from ._statistics import Statistics

_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class _Apply(torch.autograd.Function):  # type: ignore[misc]
    """y = op(x) with the operator's own gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: Linear, *parameters: torch.Tensor) -> torch.Tensor:
        operator = module._synchronised(parameters)
        rows = x.detach().reshape(-1, operator.shape[1]).contiguous()
        wanted = x.requires_grad or any(one.requires_grad for one in parameters)
        y, ctx.tape = operator._raw.forward(rows.numpy(), wanted)
        ctx.module = module
        # Torch then refuses a backward pass after a parameter was changed in place.
        ctx.save_for_backward(rows, *parameters)
        ctx.lead = x.shape[:-1]
        return torch.from_numpy(y).reshape(*ctx.lead, operator.shape[0])

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, *parameters = ctx.saved_tensors
        operator = ctx.module._synchronised(parameters)
        wants = [bool(ctx.needs_input_grad[0]), any(ctx.needs_input_grad[2:])]
        dys = dy.detach().reshape(-1, operator.shape[0]).contiguous()
        dx, grads = operator._raw.backward(rows.numpy(), dys.numpy(), ctx.tape, wants)
        found: list[torch.Tensor | None] = [None] * len(parameters)
        if grads is not None:
            found = [torch.from_numpy(grad) for grad in grads]
        gradient = None if dx is None else torch.from_numpy(dx).reshape(*ctx.lead, operator.shape[1])
        return gradient, None, *found


class Linear(nn.Module):  # type: ignore[misc]
    """An operator as a layer: y = op(x) + bias, with x (..., in) and y (..., out).

    Its parameters are those of the operator, so optimisers, `state_dict` and `copy.deepcopy` work; a dot in a name,
    as in sums of operators, is two underscores. Second derivatives are not supported.

    Args:
        operator: The operator, of which the layer keeps a copy; or a fit, with its bias.
        bias: The bias (out), or None.
    """

    def __init__(self, operator: Union[Operator, Fit], bias: Any = None) -> None:
        super().__init__()
        if isinstance(operator, Fit):
            bias = operator.bias if bias is None else bias
            operator = operator.operator
        self._operator = operator.astype(operator.dtype)
        self.out_features, self.in_features = operator.shape
        self._names: list[str] = []
        for name, values in operator.parameters().items():
            self._names.append(name)
            self.register_parameter(_key(name), nn.Parameter(torch.from_numpy(values)))
        for name, indices in operator._raw.buffers():
            self.register_buffer(_key(name), torch.from_numpy(indices.astype(np.int64)))
        if bias is None:
            self.register_parameter("bias", None)
        else:
            numbers = torch.as_tensor(np.array(bias, dtype=operator.dtype))
            if numbers.shape != (self.out_features,):
                raise ValueError(f"bias has shape {tuple(numbers.shape)}, expected ({self.out_features},)")
            self.bias = nn.Parameter(numbers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps x (..., in) to y (..., out)."""
        parameters: list[torch.Tensor] = [getattr(self, _key(name)) for name in self._names]
        _check(x, "x", parameters[0].dtype)
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"x has shape {tuple(x.shape)}, expected (..., {self.in_features})")
        y: torch.Tensor = _Apply.apply(x, self, *parameters)
        return y if self.bias is None else y + self.bias

    def operator(self) -> Operator:
        """A copy of the operator with the current parameters."""
        parameters = [getattr(self, _key(name)).detach() for name in self._names]
        current = self._synchronised(parameters)
        return current.astype(current.dtype)

    def to_linear(self) -> nn.Linear:
        """The dense layer of torch with the same outputs."""
        dense = torch.from_numpy(self.operator().to_dense())
        layer = nn.Linear(self.in_features, self.out_features, self.bias is not None, dtype=dense.dtype)
        with torch.no_grad():
            layer.weight.copy_(dense)
            if self.bias is not None:
                layer.bias.copy_(self.bias)
        return layer

    def extra_repr(self) -> str:
        """Kind, options and shape."""
        return f"{json.dumps(self._operator.spec)}, in={self.in_features}, out={self.out_features}"

    def get_extra_state(self) -> torch.Tensor:
        """Kind, options and shape, for `state_dict`: bytes of JSON, which load without pickles of classes."""
        state = json.dumps({"spec": self._operator.spec, "shape": self._operator.shape})
        return torch.tensor(list(state.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Checks that a `state_dict` is of the same operator."""
        found = json.loads(bytes(state.tolist()).decode())
        own = {"spec": self._operator.spec, "shape": list(self._operator.shape)}
        if found != own:
            raise ValueError(f"the state is of {found['spec']} {found['shape']}, expected {own['spec']} {own['shape']}")

    def _synchronised(self, parameters: Sequence[torch.Tensor]) -> Operator:
        """The operator with these parameters. They are copied at every pass, since a version of them misses changes
        through `.data`; a copy is small compared with the product."""
        dtype = _check(parameters[0], "parameters", None)
        if self._operator.dtype != dtype:
            self._operator = self._operator.astype(dtype)
        raw = self._operator._raw
        for name, values in zip(self._names, parameters):
            raw.set_parameter(name, values.detach().contiguous().reshape(-1).numpy())
        for name, indices in raw.buffers():
            wanted = getattr(self, _key(name)).numpy()
            if not np.array_equal(wanted, indices):
                raw.set_buffer(name, wanted.tolist())
        return self._operator


class Conv2d(nn.Module):  # type: ignore[misc]
    """An operator as a convolution: it maps patches (channels * height * width) to outputs.

    Args:
        operator: The operator, or a fit, as for `Linear`.
        like: The `nn.Conv2d`, or one of ours, whose kernel, stride, dilation and padding it takes; one group.
        bias: The bias (out), or None.
    """

    def __init__(self, operator: Union[Operator, Fit], like: Any, bias: Any = None) -> None:
        super().__init__()
        self.linear = Linear(operator, bias)
        self.kernel_size, self.stride, self.dilation = like.kernel_size, like.stride, like.dilation
        self.padding_mode = like.padding_mode
        # The form in which torch's own layer pads, whether it was given numbers or a word.
        self._reversed_padding_repeated_twice = list(like._reversed_padding_repeated_twice)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps x (batch, channels, height, width) to y (batch, out, height, width)."""
        if x.ndim != 4:
            raise ValueError(f"x has shape {tuple(x.shape)}, expected (batch, channels, height, width)")
        patches, (height, width) = _patches(self, x)
        y: torch.Tensor = self.linear(patches)
        return y.transpose(1, 2).reshape(len(x), self.linear.out_features, height, width)

    @property
    def bias(self) -> nn.Parameter | None:
        """The bias (out), or None."""
        return self.linear.bias

    def operator(self) -> Operator:
        """A copy of the operator with the current parameters."""
        return self.linear.operator()


def _patches(layer: Any, x: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int]]:
    """Patches (batch, places, channels * height * width) of a convolution, and height and width of its output."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
    size = [
        (side - dilation * (kernel - 1) - 1) // stride + 1
        for side, kernel, dilation, stride in zip(padded.shape[2:], layer.kernel_size, layer.dilation, layer.stride)
    ]
    patches = nn.functional.unfold(padded, layer.kernel_size, layer.dilation, 0, layer.stride)
    return patches.transpose(1, 2), (size[0], size[1])


def replace(
    model: nn.Module, name: str, op: Union[Operator, Fit], bias: Any = None
) -> Union[Linear, Conv2d]:
    """Puts an operator in the place of a linear layer or a convolution; gives the new layer.

    Args:
        model: The network, which is changed.
        name: Name of the layer as in `named_modules`: an `nn.Linear`, an `nn.Conv2d` of one group, a `Conv1D` of
            transformers, or one of ours.
        op: The operator in the shape of the layer, or a fit of it.
        bias: The new bias. By default that of the fit, or else the layer keeps its own.

    Raises:
        KeyError: if there is no such layer.
        TypeError: if the layer is of another kind.
        ValueError: if the shapes differ.
    """
    old = _layer(model, name)
    out, inp = _shape(old, name)
    own = op.operator if isinstance(op, Fit) else op
    if own.shape != (out, inp):
        raise ValueError(f"{name} has shape {(out, inp)}, the operator {own.shape}")
    if bias is None and isinstance(op, Fit):
        bias = op.bias
    old_bias = getattr(old, "bias", None)
    if bias is None and old_bias is not None:
        bias = old_bias.detach().to(torch.float64).numpy()
    dtype = next((one.dtype for one in old.parameters()), torch.float32)
    own = own.astype(_TYPES.get(dtype, np.float32))
    is_image = isinstance(old, (nn.Conv2d, Conv2d))
    new: Union[Linear, Conv2d] = Conv2d(own, old, bias) if is_image else Linear(own, bias)
    new.train(old.training)
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, new)
    return new


def capture(
    model: nn.Module, loader: Iterable[Any], names: Sequence[str], *, limit: int | None = None
) -> dict[str, Statistics]:
    """Statistics of linear layers and convolutions while a network runs over data.

    Args:
        model: Any network; it runs as it is, in evaluation mode and without gradients.
        loader: Batches: a tensor, keywords as a dictionary, or a sequence of which the first is the input, as those
            of images with labels.
        names: Names of layers as in `named_modules`.
        limit: Largest number of batches.

    Returns:
        Statistics by name: inputs, and outputs with the layer's bias; patches and places of convolutions.

    Raises:
        KeyError, TypeError: as for `replace`.
        ValueError: if a number is not finite, or a layer was never reached.
    """
    found = {name: Statistics(_shape(_layer(model, name), name)) for name in names}
    hooks = []

    def hook(name: str) -> Any:
        def watch(module: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
            x = inputs[0]
            if isinstance(module, (nn.Conv2d, Conv2d)):
                (x, _), output = _patches(module, x), output.flatten(2).transpose(1, 2)
            try:
                found[name].add(_float(x), _float(output))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

        return watch

    was_training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for name in names:
            hooks.append(_layer(model, name).register_forward_hook(hook(name)))
        with torch.no_grad():
            for index, batch in enumerate(loader):
                if limit is not None and index >= limit:
                    break
                if isinstance(batch, dict):
                    model(**batch)
                else:
                    model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for handle in hooks:
            handle.remove()
        for module, training in was_training.items():
            module.training = training
    if missed := [name for name, one in found.items() if one.count == 0]:
        raise ValueError(f"never reached while the network ran: {', '.join(missed)}")
    return found


def _key(name: str) -> str:
    """The name of a parameter for torch, which refuses dots."""
    return name.replace(".", "__")


def _layer(model: nn.Module, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise KeyError(f"there is no layer {name!r}; names are those of named_modules()") from None


def _shape(layer: nn.Module, name: str) -> tuple[int, int]:
    """Features out and in of a linear layer."""
    if isinstance(layer, (nn.Linear, Linear)):
        return layer.out_features, layer.in_features
    if isinstance(layer, Conv2d):
        return layer.linear.out_features, layer.linear.in_features
    if isinstance(layer, nn.Conv2d) and layer.groups == 1:
        return layer.out_channels, layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
    weight = getattr(layer, "weight", None)
    # Transformers has GPT-2's layers the other way round.
    if type(layer).__name__ == "Conv1D" and isinstance(weight, torch.Tensor) and weight.ndim == 2:
        return int(weight.shape[1]), int(weight.shape[0])
    raise TypeError(f"{name} is a {type(layer).__name__}, expected a linear layer or a convolution of one group")


def _check(tensor: torch.Tensor, what: str, dtype: torch.dtype | None) -> Any:
    if tensor.device.type != "cpu":
        raise ValueError(f"{what} on {tensor.device}: operators compute on the CPU, move the layer and its input there")
    if tensor.dtype not in _TYPES:
        raise TypeError(f"{what} in {tensor.dtype}: operators compute in float32 and float64")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(f"{what} is {tensor.dtype}, the parameters are {dtype}")
    return _TYPES[tensor.dtype]


def _float(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float32)
