//! The network that is trained, from its options.

use crate::jobs::kit::Failure;
use linwright_data::images::{Images, Normalisation};
use linwright_nets::layers::Linear;
use linwright_nets::{InputSpec, LayerSpec, NetSpec};
use linwright_run::shown;
use std::collections::BTreeMap;
use std::path::Path;

/// Beginning of the shorthand for linear layers.
const MLP: &str = "mlp";

/// Whether the option names widths, not a file.
pub(super) fn is_mlp(net: &str) -> bool {
    net == MLP || net.starts_with("mlp:")
}

/// The description of the network: that of a file, or linear layers for these images.
///
/// # Errors
/// [`Failure`] as of [`check`], and for widths without outputs.
pub(super) fn described(
    net: &str,
    images: &Images,
    training: &[usize],
) -> Result<NetSpec, Failure> {
    match is_mlp(net) {
        true => mlp(&widths(net)?, images, training),
        false => Ok(NetSpec::read(Path::new(net))?.0),
    }
}

/// Checks what needs no images.
pub(super) fn check(net: &str) -> Result<(), Failure> {
    if is_mlp(net) {
        return widths(net).map(drop);
    }
    match NetSpec::read(Path::new(net))? {
        (_, None) => Ok(()),
        (_, Some(weights)) => Err(Failure::usage(format!(
            "{net} names weights, {}, and training starts from random ones",
            weights.display()
        ))
        .hint("remove its key `weights`")),
    }
}

/// The widths in `mlp:512,256`.
fn widths(net: &str) -> Result<Vec<usize>, Failure> {
    let widths = net.strip_prefix("mlp:").unwrap_or_default();
    let parts = widths.split(',').map(str::trim).filter(|part| !part.is_empty());
    let wrong = || {
        Failure::usage(format!("\"{}\": expected widths of layers such as mlp:512,256", shown(net)))
    };
    parts.map(|part| part.parse().map_err(|_| wrong())).collect()
}

/// Linear layers of these widths with ReLU between them.
fn mlp(widths: &[usize], images: &Images, training: &[usize]) -> Result<NetSpec, Failure> {
    let (shape, normalisation) = (images.shape(), Normalisation::of(images, training)?);
    let narrow = |numbers: &[f64]| numbers.iter().map(|number| *number as f32).collect();
    let input = InputSpec {
        channels: shape.channels,
        height: shape.height,
        width: shape.width,
        mean: narrow(&normalisation.mean),
        std: narrow(&normalisation.std),
    };
    let mut layers = vec![LayerSpec::Flatten];
    for (index, &out) in widths.iter().enumerate() {
        let name = format!("fc{}", index + 1);
        layers.extend([LayerSpec::Linear(Linear { name, out, bias: true }), LayerSpec::Relu]);
    }
    let head = Linear { name: "head".into(), out: images.classes(), bias: true };
    layers.push(LayerSpec::Linear(head));
    let spec = NetSpec { input, layers, operators: BTreeMap::new() };
    spec.check()?;
    Ok(spec)
}
