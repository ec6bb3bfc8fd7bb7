"""Energies, forces and motion of molecules.

Written by `python -m linwright._stubs`.
"""

from collections.abc import Sequence
from typing import Literal

from ._jobs import StrPath, Text
from ._progress import Progress
from ._results import Result

def evaluate(
    potential: Text,
    structures: Text,
    *,
    units: Text | None = None,
    keys: Text | None = None,
    exact: bool = False,
    members: StrPath | Sequence[StrPath] = (),
    reference_energies: bool = False,
    compat: bool = False,
    limit: int | None = None,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Energies and forces of structures by a molecular potential, and their errors.

    Errors are measured where the file has reference values: of energies per atom, and of the components of forces. Without --exact, single precision and tables of radial filters are used.

    Several models predict their mean; how much they differ is the unbiased standard deviation. A model of a dipole moment, a spatial extent, a vector or a symmetric tensor predicts that instead, and its errors are measured where the file has a value of this name.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
        structures: Structures in extended XYZ.
        units: Units of the structures, such as `kcal/mol,A` [default: those of the model].
        keys: Names of energies and forces in the files: `energy=energy,forces=REF_forces`.
        exact: Compute in double precision, without tables of radial filters.
        members: Further models of an ensemble: its mean and standard deviation are predicted.
        reference_energies: Add energies of isolated atoms that the model stores but leaves out
            (`remove_ref_energy=False` of torchmd-net).
        compat: Compute the prior `Coulomb` as torchmd-net does, ten times too large with angstroms.
        limit: Evaluate only the first N structures.
        output: Write the structures with predicted energies, forces and stress, or other properties, to
            this file.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def md(
    potential: Text,
    structure: Text,
    *,
    output: StrPath,
    steps: int = 1000,
    timestep: float = 0.5,
    ensemble: Literal['nve', 'langevin'] = 'nve',
    temperature: float | None = None,
    friction: float | None = None,
    every: int = 10,
    seed: int = 0,
    units: Text | None = None,
    exact: bool = False,
    progress: Progress = None,
) -> Result:
    """Molecular dynamics with a potential, at constant energy or temperature.

    The directory gets trajectory.xyz (extended XYZ with energy, forces, stress and momenta in the units of ASE: eV, angstroms), log.jsonl (energies, temperature, pressure), final.xyz and a report with the drift of the energy. Run the same command again to resume an interrupted simulation, with the same bits; with more --steps, to continue a finished one.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, a directory with
            `model.safetensors`, or an ensemble, whose mean is used: a directory of several, or a `.zip`
            of torchmd-net.
        structure: A structure in extended XYZ; the first one of several.
        steps: Total number of time steps; a larger number continues a finished simulation.
        timestep: Time step in femtoseconds.
        ensemble: Constant quantity: the energy, or the temperature by Langevin dynamics.
        temperature: Temperature in kelvins, of the velocities that are drawn and of Langevin dynamics;
            NVE does not keep it. Velocities come from the structure's column `momenta` if there is one,
            unless a temperature is given for NVE [default: 300].
        friction: Friction of Langevin dynamics in inverse femtoseconds [default: 0.01].
        every: Steps between two frames.
        seed: Seed of velocities and random forces.
        units: Units of the structure, such as `kcal/mol,A` [default: those of the model].
        exact: Compute in double precision, without tables of radial filters.
        output: Directory of the simulation; the same command resumes there.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def relax(
    potential: Text,
    structures: Text,
    *,
    output: StrPath,
    optimizer: Literal['lbfgs', 'fire'] = 'lbfgs',
    fmax: float = 0.05,
    steps: int = 1000,
    cell: bool = False,
    units: Text | None = None,
    exact: bool = False,
    limit: int | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Relax structures with a potential until the forces are small.

    The output has every structure in the units of the input; its keys `converged`, `steps` and `fmax` (eV/A) report how far each one converged. If one did not converge within --steps, all are written and the command ends with code 4.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, a directory with
            `model.safetensors`, or an ensemble, whose mean is used: a directory of several, or a `.zip`
            of torchmd-net.
        structures: Structures in extended XYZ.
        optimizer: How to go downhill: L-BFGS is fast near a minimum, FIRE is robust far from one.
        fmax: Converge until no force on an atom is larger than this, in eV/A.
        steps: Largest number of steps for each structure.
        cell: Relax the periodic cell too, until the virial for each atom is at most --fmax in eV.
        units: Units of the structures, such as `kcal/mol,A` [default: those of the model].
        exact: Compute in double precision, without tables of radial filters.
        limit: Relax only the first N structures.
        output: Write the relaxed structures, with energy, forces and stress, to this file.
        force: Overwrite an existing file.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def info(
    potential: Text,
    *,
    progress: Progress = None,
) -> Result:
    """Architecture, size, units and species of a molecular potential.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def convert(
    potential: Text,
    *,
    output: StrPath,
    units: Text | None = None,
    species: Text | Sequence[Text] = (),
    force: bool = False,
    progress: Progress = None,
) -> Result:
    """Write a molecular potential as a file of another format, for this program or torchmd-net.

    Checkpoints are read without executing anything in them. Weights of the layout before 2026 are rearranged. The file has hyper-parameters, units and species in its metadata. In a `.ckpt` operators are the dense weights that they equal, and torchmd-net reads energies of atoms in single precision.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
        output: The file to write: a `.ckpt`, which torchmd-net opens, or safetensors with the names of
            its state dict; of an ensemble a directory of safetensors, or a `.zip` that torchmd-net
            opens.
        units: Units of the model, such as `eV,A` [default: those of the file, or eV and angstroms].
        species: Elements that the model was trained on, such as `H,C,O`; others are refused then
            [default: those of the file].
        force: Overwrite what exists.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compress(
    potential: Text,
    *,
    output: StrPath,
    method: Text | None = None,
    keep: float | None = None,
    rank: int | None = None,
    size: Text | None = None,
    layers: Text | None = None,
    roles: Text | Sequence[Text] = (),
    sites: Text | Sequence[Text] = (),
    ignore: Text | Sequence[Text] = (),
    calibration: StrPath | None = None,
    num_structures: int = 200,
    recover: Text | None = None,
    test: StrPath | None = None,
    units: Text | None = None,
    keys: Text | None = None,
    seed: int = 0,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Replace linear layers of a molecular potential by smaller ones fitted to structures, and save it.

    Of the interaction layers, those that mix channels and those that make filters of distances are replaced; embedding and readout stay, unless --recover trains all of it. Errors of energies and forces are measured before and after, in single precision without tables. The other commands for potentials open the directory; only the exact path applies operators as they are, the fast one their dense weights.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`.
        method: Method of replacement with its options, as for `compress`: `monarch:blocks=8` [default:
            low_rank].
        keep: Share of parameters kept in the targeted layers. If a method does not support this size,
            the nearest one is used, and --dry-run shows it; low rank never keeps more than this share.
        rank: Rank of the factors, for methods that have one.
        size: Size in another unit, as for `compress`: `energy=0.9`.
        layers: Interaction layers to replace: `1`, `0,2`, `0-1` [default: all].
        roles: Roles to replace: mixing (of channels), filter (from radial functions) [default: both].
        sites: Names of linear layers to replace: a glob such as `*.linears_tensor.3`, or a regular
            expression after `re:` [default: all].
        ignore: Names of linear layers to leave unchanged: a glob or, after `re:`, a regular expression.
        calibration: Structures in extended XYZ to fit to; their energies and forces are used by
            --recover only. laser and svd need none.
        num_structures: Largest number of structures to fit to, drawn with the seed.
        recover: Train all parameters of the potential afterwards for this many steps on the energies
            and forces of --calibration, of which a twentieth is held out to choose the best step.
            `300:rate=0.001` sets the largest step size [default: 0.0003].
        test: Structures with forces, and energies if available, on which the potential is evaluated
            before and after.
        units: Units of the structures, such as `kcal/mol,A` [default: those of the model].
        keys: Names of energies and forces in the files: `energy=energy,forces=REF_forces`.
        seed: Seed of random initial parameters and of the choice of structures.
        output: Output directory.
        force: Replace the directory if it exists.
        dry_run: Print the plan with its parameters, memory and time, and stop.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def compare(
    potential: Text,
    *,
    calibration: StrPath,
    test: StrPath,
    num_structures: int = 200,
    units: Text | None = None,
    keys: Text | None = None,
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
    """Compare methods of compression on a molecular potential: every method at every size, with the dense potential, random factors of the same size and rounded weights of the same bytes.

    Of the interaction layers, those that mix channels and those that make filters of distances are replaced, by linear operators. Errors of forces and energies on the same structures, in single precision without tables, with 95 % intervals of the difference from the dense potential over structures; parameters, multiply-adds, bytes and speed. Run the same command again to resume.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`.
        calibration: Structures in extended XYZ to fit to; their energies and forces are not read.
            `FILE:examples=0-949,batch=10`; `validation=0.1` is the share of them for validation.
        num_structures: Largest number of structures to fit to, drawn with the seed.
        test: Structures with forces, and energies if available, on which potentials are scored:
            `FILE:examples=0-199`.
        units: Units of the structures, such as `kcal/mol,A` [default: those of the model].
        keys: Names of energies and forces in the files: `energy=energy,forces=REF_forces`.
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
        output: Directory of the comparison [default: runs/molecule-compare- and its fingerprint].
        shard: Do one of N shares of the work, as `i/N` counted from 0, into output; merge() makes the
            result of all.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def bench(
    potential: Text,
    structures: Text,
    *,
    units: Text | None = None,
    exact: bool = False,
    limit: int = 8,
    repeats: int = 9,
    progress: Progress = None,
) -> Result:
    """Time of energies and forces of structures by a molecular potential.

    Each structure is evaluated again and again, neighbour list included. The least time is that of a cost model: products and sums over neighbours at the rates of their kernels, measured in the same run, and nothing else.

    Args:
        potential: A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
            `model.safetensors`.
        structures: Structures in extended XYZ.
        units: Units of the structures, such as `kcal/mol,A` [default: those of the model].
        exact: Compute in double precision, without tables of radial filters.
        limit: Time only the first N structures.
        repeats: Timed evaluations of each structure, after two untimed ones.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """

def train(
    *,
    data: StrPath,
    output: StrPath,
    validation: Text | None = None,
    split: StrPath | None = None,
    test: StrPath | None = None,
    isolated: StrPath | None = None,
    references: Literal['least-squares', 'mean', 'none'] | None = None,
    units: Text | None = None,
    keys: Text | None = None,
    config: StrPath | None = None,
    init: StrPath | None = None,
    architecture: Text | None = None,
    loss: Text | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    rate: float | None = None,
    training: Text | None = None,
    seed: int | None = None,
    checkpoint: StrPath | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = None,
) -> Result:
    """Train a molecular potential on energies and forces.

    A TensorNet (arXiv 2306.06482) learns the structures of a file; some are held out for the curve, divided as torchmd-net divides them. The output directory is a potential for `molecule eval`, with the curve, the division, and the errors on validation and test structures. The same command gives the same bytes on any number of threads; interrupted, it resumes.

    Args:
        data: Structures with energies and forces: extended XYZ, an archive of numpy (`.npz`) as MD17,
            rMD17 and torchmd-net have it, or HDF5 (`.h5`, `.hdf5`) as ANI-1x, SPICE and torchmd-net.
        validation: Structures held out for the curve and the choice of the best step: their number, a
            share below 1, or a file [default: 0.05, or that of --config].
        split: Division of --data by indices: `split.json` of another training, or `splits.npz` of
            torchmd-net.
        test: Structures for the final measurement of errors.
        isolated: Energies of isolated atoms: structures of one atom each. They are subtracted from
            energies and become part of the potential.
        references: Otherwise, what is subtracted from energies: energies of elements by least squares,
            the mean (and energies are divided by their deviation), or nothing [default: least-squares,
            or as --config has it].
        units: Units of the structures, such as `kcal/mol,A` [default: eV,A].
        keys: Names of energies and forces in the files: `energy=energy,forces=REF_forces`.
        config: Settings of a run of torchmd-net in YAML: architecture, losses, batches and step sizes.
            Options take precedence over it.
        init: Start from this potential instead of random weights.
        architecture: Size of the network: `channels=64,layers=1,cutoff=4.5`.
        loss: Mean of squares, of absolute values, or of Huber's function, with the weights of energies
            and forces: `huber:delta=0.5,energy_weight=0.1` [default: mse].
        epochs: Epochs over the structures [default: 100, or those of --config].
        steps: Number of updates, instead of epochs.
        rate: Largest learning rate of AdamW [default: 0.001].
        training: Batches, decay, schedule, validation and which step is kept:
            `batch=4,schedule=plateau`, `last`.
        output: Output directory.
        seed: Seed of initial weights, of the division of the data and of the order of structures
            [default: 1, or that of --config].
        checkpoint: Training checkpoint, which stays when the potential is written [default: in the
            user's store, until then].
        force: Replace the directory if it exists.
        dry_run: Print size, sets and steps, and stop.
        progress: How to report progress: a function of step, done and total, True for a bar, False for
            silence.
    """
