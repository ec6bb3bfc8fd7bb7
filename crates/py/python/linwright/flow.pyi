"""Densities and samples of images and points.

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

from ._jobs import StrPath, Text
from ._progress import Progress
from ._results import Result

def train(
    *,
    data: Text,
    output: StrPath,
    limit: int | None = None,
    resize: Text | None = None,
    held_out_share: float | None = None,
    layer: Text = 'cd:2',
    architecture: Text | None = None,
    steps: int = 1000,
    rate: float | None = None,
    training: Text | None = None,
    seed: int = 0,
    checkpoint: StrPath | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Train a normalizing flow on images or points.

    The flow is Glow's: steps of a normalisation, an invertible mix of the channels (--layer) and a coupling. Its loss is the negative log-likelihood in bits per dimension. The output directory is a flow for `flow eval` and `flow sample`, with the curve. The same command gives the same bytes on any number of threads; interrupted, it resumes.

    Args:
        data: The data: images (idx, npy, CIFAR, a folder of PNG files), a numpy array of points, or
            points drawn from `moons`, `checkerboard`, `circles` or a Gaussian, such as
            `gaussian:toeplitz:16`, `gaussian:circulant:16`, `gaussian:scaled:16` (a circulant between
            diagonals), `gaussian:generic:16`, each with `:permuted` for another order.
        limit: Use only the first N examples.
        resize: Resize images by area to this height and width, such as `16,16` [default: sides of 8,
            16, 24 and 32 stay, others become the next of 8, 16 and 32 below].
        held_out_share: Share of the examples held out for the curve and the choice of the best step, at
            least one example [default: 0.1].
        layer: The operator that mixes channels: cd:M (M diagonals and M - 1 circulants; with :raw or
            :time, of other parameters), dense, plu, permutation, householder:R, exponential, rotor,
            woodbury:R, butterfly.
        architecture: Size of the flow: `depth=4,hidden=16`, `levels=2,squeeze=place-major`.
        steps: Number of updates.
        rate: Largest learning rate; it falls to a hundredth along a cosine [default: 0.001 for images,
            0.005 for points].
        training: Batches, optimizer, warmup, validation and which step is kept:
            `batch=32,optimizer=adamax`, `last`.
        output: Output directory.
        seed: Seed of initial numbers, of the division of the data, of their order and their noise.
        checkpoint: Training checkpoint, which stays when the flow is written [default: in the user's
            store, until then].
        force: Replace the directory if it exists.
        dry_run: Print size and steps, and stop.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def evaluate(
    flow: StrPath,
    *,
    data: Text,
    limit: int | None = None,
    draws: int = 4,
    seed: int = 0,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Measure bits per dimension of images or points under a flow.

    Intensities v of 0 to 255 become numbers by noise u of [0, 1), (v + u) / 256 - 0.5; the standard error of the bits is that over draws of this noise. Of numbers in any units it is that over examples.

    Args:
        flow: A directory that `flow train` wrote.
        data: The data, as for `flow train`; images are resized to those of the flow.
        limit: Use only the first N examples, or N generated points [default: all, 10,000 points].
        draws: Draws of the dequantisation noise; the standard error of the bits is over these draws.
        seed: Seed of the noise and of generated points.
        output: Also write the result as JSON to this file.
        force: Overwrite an existing result.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def sample(
    flow: StrPath,
    *,
    count: int = 64,
    temperature: float = 1.0,
    between: Text | None = None,
    seed: int = 0,
    output: StrPath | None = None,
    points: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Draw samples of a flow as a picture or as numbers.

    Each sample has its own random numbers: the first ones are the same for any count. With --between, the examples on a path between two are shown.

    Args:
        flow: A directory that `flow train` wrote.
        count: Number of samples; of a path, its examples with both ends.
        temperature: Factor of the standard deviations of latents; zero gives the most likely latents.
        between: The path from the first to the second example of these data, instead of samples.
        seed: Seed of random numbers.
        output: Picture in PNG: images side by side, or a scatter plot of points in the plane.
        points: Numbers of the samples: an array (samples, height, width, channels), or (samples,
            numbers) of points, as `.npy`; or as text, a line for each sample, as `.csv`. A file that
            exists is never replaced.
        force: Overwrite an existing picture.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def match(
    *,
    data: Text,
    output: StrPath,
    layer: Text = 'cd:2',
    architecture: Text | None = None,
    steps: int = 2000,
    training: Text | None = None,
    rate: float = 0.002,
    count: int = 1000,
    ode_steps: int = 40,
    seed: int = 0,
    checkpoint: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Learn velocities between noise and points, by flow matching.

    A network with square hidden layers of any operator (--layer) learns the velocity along straight lines from noise to data. The output directory is a small network, with the density of fresh points, a picture of samples, and the curve. Interrupted, it resumes.

    Args:
        data: The data: points drawn from `moons`, `checkerboard`, `circles` or a Gaussian, as for `flow
            train`, or a numpy array of points.
        layer: Operator of the square hidden layers: `dense`, `cd:M` (M diagonals and M - 1 circulants),
            or an operator with all its options in JSON.
        architecture: Size of the network: `hidden=32,depth=2`.
        steps: Number of updates.
        training: Pairs of noise and data that are trained on: `batch=128,pairs=4096`.
        rate: Largest learning rate of Adam; it falls to a hundredth along a cosine.
        count: Number of points whose density is measured, and of samples in the picture.
        ode_steps: Steps of the midpoint rule between noise and data.
        output: Output directory.
        seed: Seed of initial weights, pairs and their order.
        checkpoint: Training checkpoint, which stays when the network is written [default: in the user's
            store, until then].
        force: Replace the directory if it exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """
