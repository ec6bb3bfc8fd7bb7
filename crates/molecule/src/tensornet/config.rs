//! Architecture of a TensorNet, with the names of torchmd-net.

use super::heads::Head;
use crate::neighbours::Cutoff;
use crate::units::Length;
use crate::{MoleculeError, shown_species};
use serde::{Deserialize, Serialize};

/// Largest number of channels, layers, radial functions and species: descriptions are untrusted
/// input.
const MOST: usize = 1 << 14;

/// Nonlinearity of all linear layers that have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nonlinearity {
    /// `x sigmoid(x)`; `swish` is the same.
    #[default]
    #[serde(alias = "swish")]
    Silu,
    /// `log(1 + e^x) - log 2`.
    Ssp,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x tanh(log(1 + e^x))`.
    Mish,
}

/// Symmetry group of the interaction layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// Rotations and reflections: messages multiply from both sides.
    #[default]
    #[serde(rename = "O(3)")]
    Orthogonal,
    /// Rotations only: messages multiply from the right.
    #[serde(rename = "SO(3)")]
    Rotations,
}

/// Kind of radial functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RadialKind {
    /// Gaussians of the exponential of the distance, with a cutoff factor.
    #[default]
    Expnorm,
    /// Gaussians of the distance.
    Gauss,
}

/// Family of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// arXiv 2306.06482.
    #[default]
    Tensornet,
    /// With latent charges, arXiv 2601.00581.
    #[serde(alias = "tensornetv2_alt", alias = "tensornet-nqe")]
    Tensornet2,
}

/// Reduction over atoms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their sum.
    #[default]
    #[serde(alias = "sum")]
    Add,
    /// Their mean.
    Mean,
}

/// Latent charges of TensorNet2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeConfig {
    /// Charges of each atom and stage.
    pub q_dim: usize,
    /// Weights of the stages in the Coulomb energy: embedding, then layers.
    #[serde(default)]
    pub q_weights: Vec<f64>,
    /// Cutoff of the Coulomb energy with a reaction field; none for all pairs.
    #[serde(default)]
    pub coulomb_cutoff: Option<f64>,
}

/// Architecture of a TensorNet. Read from the hyper-parameters of torchmd-net; those that do not
/// affect the function are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorNetConfig {
    /// Family of the model.
    #[serde(default)]
    pub model: Family,
    /// Channels.
    #[serde(rename = "embedding_dimension", alias = "hidden_channels")]
    pub channels: usize,
    /// Interaction layers.
    #[serde(rename = "num_layers")]
    pub layers: usize,
    /// Radial functions.
    #[serde(rename = "num_rbf")]
    pub radial: usize,
    /// Kind of radial functions.
    #[serde(default, rename = "rbf_type", alias = "rbf")]
    pub radial_kind: RadialKind,
    /// Whether their centres and widths are trained.
    #[serde(default)]
    pub trainable_rbf: bool,
    /// Distance below which atoms do not interact.
    #[serde(default)]
    pub cutoff_lower: f64,
    /// Distance from which atoms do not interact.
    pub cutoff_upper: f64,
    /// Unit of both, which files store next to the hyper-parameters.
    #[serde(skip)]
    pub length: Length,
    /// Number of species: atomic numbers are below it.
    #[serde(rename = "max_z")]
    pub species: usize,
    /// Nonlinearity.
    #[serde(default)]
    pub activation: Nonlinearity,
    /// Symmetry group of the layers.
    #[serde(default, rename = "equivariance_invariance_group", alias = "group")]
    pub group: Group,
    /// What is predicted.
    #[serde(default, rename = "output_model")]
    pub head: Head,
    /// Reduction over atoms.
    #[serde(default, rename = "reduce_op")]
    pub reduction: Reduction,
    /// Latent charges, for TensorNet2.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub charges: Option<ChargeConfig>,
}

impl TensorNetConfig {
    /// Layers of the model for a molecule data set, as in torchmd-net's examples.
    #[must_use]
    pub fn new(channels: usize, layers: usize, radial: usize, cutoff: f64) -> Self {
        Self {
            model: Family::Tensornet,
            channels,
            layers,
            radial,
            radial_kind: RadialKind::Expnorm,
            trainable_rbf: false,
            cutoff_lower: 0.0,
            cutoff_upper: cutoff,
            length: Length::default(),
            species: 100,
            activation: Nonlinearity::Silu,
            group: Group::Orthogonal,
            head: Head::Scalar,
            reduction: Reduction::Add,
            charges: None,
        }
    }

    /// Distances at which atoms interact.
    #[must_use]
    pub fn cutoff(&self) -> Cutoff {
        Cutoff { lower: self.cutoff_lower, upper: self.cutoff_upper, length: self.length }
    }

    /// Reads and checks hyper-parameters.
    ///
    /// # Errors
    /// [`MoleculeError::Hyperparameters`] for missing ones and values out of range.
    pub fn from_hyperparameters(values: &serde_json::Value) -> Result<Self, MoleculeError> {
        let wrong = |source| MoleculeError::Hyperparameters { source };
        let mut config: Self = serde_json::from_value(values.clone()).map_err(wrong)?;
        if config.model == Family::Tensornet {
            config.charges = None;
        }
        config.check()?;
        Ok(config)
    }

    /// Checks that a network of this architecture can be built.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] with the first value that is out of range.
    pub fn check(&self) -> Result<(), MoleculeError> {
        let sizes = [
            ("embedding_dimension", self.channels, 2),
            ("num_layers", self.layers, 0),
            ("num_rbf", self.radial, 2),
            ("max_z", self.species, 2),
            ("q_dim", self.charges.as_ref().map_or(1, |charges| charges.q_dim), 1),
        ];
        for (option, size, least) in sizes {
            if !(least..=MOST).contains(&size) {
                let expected = format!("{least} to {MOST}");
                return Err(Self::wrong(option, size.to_string(), expected));
            }
        }
        let (lower, upper) = (self.cutoff_lower, self.cutoff_upper);
        if !(lower.is_finite() && upper.is_finite() && 0.0 <= lower && lower < upper) {
            let found = format!("{upper} with cutoff_lower {lower}");
            return Err(Self::wrong("cutoff_upper", found, "0 <= lower < upper".into()));
        }
        self.check_charges()
    }

    /// Rejects atoms of a species without an embedding.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] with the first such atom.
    pub(crate) fn check_species(&self, species: &[u8]) -> Result<(), MoleculeError> {
        let is_unknown = |z: &u8| *z == 0 || usize::from(*z) >= self.species;
        let Some(atom) = species.iter().position(is_unknown) else { return Ok(()) };
        let expected = format!(
            "more than {}, the atomic number of atom {atom} ({}), and not zero",
            species[atom],
            shown_species(species[atom])
        );
        Err(Self::wrong("max_z", self.species.to_string(), expected))
    }

    fn check_charges(&self) -> Result<(), MoleculeError> {
        let found = |charges: bool| if charges { "given" } else { "none" }.to_owned();
        let (needs, has) = (self.model == Family::Tensornet2, self.charges.is_some());
        if needs != has {
            let expected = if needs { "a number, for tensornet2" } else { "none, for tensornet" };
            return Err(Self::wrong("q_dim", found(has), expected.into()));
        }
        let coulomb = self.head.has_coulomb();
        if coulomb && !needs {
            let expected = "another one, for a model without charges".into();
            return Err(Self::wrong("output_model", "ScalarPlusWeightedCoulomb".into(), expected));
        }
        let weights = self.charges.as_ref().map_or(0, |charges| charges.q_weights.len());
        if coulomb && weights != self.layers + 1 {
            let expected = format!("{}: the embedding, then each layer", self.layers + 1);
            return Err(Self::wrong("q_weights", format!("{weights} weights"), expected));
        }
        let cutoff = self.charges.as_ref().and_then(|charges| charges.coulomb_cutoff);
        if let Some(cutoff) = cutoff.filter(|cutoff| !(cutoff.is_finite() && *cutoff > 0.0)) {
            let expected = "a positive distance, or null for all pairs".into();
            return Err(Self::wrong("coulomb_cutoff", cutoff.to_string(), expected));
        }
        Ok(())
    }

    fn wrong(option: &'static str, found: String, expected: String) -> MoleculeError {
        MoleculeError::Architecture { option, found, expected }
    }

    /// Outputs of the head for an atom: one, or weights of all channels.
    pub(crate) fn head_outputs(&self) -> usize {
        if self.head.width() == 1 { 1 } else { self.channels }
    }

    /// Number of trained parameters, with dense weights in all linear layers.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let [h, r, l, z] =
            [self.channels, self.radial, self.layers, self.species].map(|n| n as u64);
        let linear = |inp: u64, out: u64| inp * out + out;
        let embedding = 3 * linear(r, h) + z * h + linear(2 * h, h) + 3 * h * h;
        let scales = linear(h, 2 * h) + linear(2 * h, 3 * h) + 2 * h;
        let of_charges = self.charges.as_ref().map(|charges| charges.q_dim as u64);
        let radial = r + 2 * of_charges.unwrap_or(0);
        let filters = linear(radial, h) + linear(h, 2 * h) + linear(2 * h, 3 * h);
        let layers = l * (filters + 6 * h * h);
        let predictor = |q: u64| 6 * h + linear(3 * h, h) + linear(h, h) + linear(h, 2 * q);
        let charges = of_charges.map_or(0, |q| (l + 1) * predictor(q));
        let head = linear(h, h / 2) + linear(h / 2, self.head_outputs() as u64);
        embedding + scales + layers + charges + linear(3 * h, h) + 6 * h + head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(channels: usize, layers: usize, radial: usize, species: usize) -> u64 {
        let config = TensorNetConfig::new(channels, layers, radial, 5.0);
        TensorNetConfig { species, ..config }.parameters()
    }

    #[test]
    fn parameters_are_those_of_the_reference() {
        assert_eq!([0, 1, 2].map(|l| counted(128, l, 32, 128)), [301_441, 535_681, 769_921]);
        assert_eq!(counted(128, 2, 32, 100), 766_337);
        assert_eq!(counted(256, 3, 32, 128), 3_925_249);
        assert_eq!(counted(128, 2, 64, 128), 790_401);
    }

    #[test]
    fn hyperparameters_are_read_by_the_names_of_the_reference() {
        let values = serde_json::json!({
            "model": "tensornet", "embedding_dimension": 16, "num_layers": 1, "num_rbf": 8,
            "rbf_type": "gauss", "cutoff_lower": 0.0, "cutoff_upper": 4.5, "max_z": 20,
            "activation": "swish", "equivariance_invariance_group": "SO(3)", "reduce_op": "mean",
            "output_model": "Scalar", "lr": 0.1, "q_dim": 16,
        });
        let config = TensorNetConfig::from_hyperparameters(&values).expect("hyper-parameters");
        let want = TensorNetConfig {
            species: 20,
            radial_kind: RadialKind::Gauss,
            group: Group::Rotations,
            reduction: Reduction::Mean,
            ..TensorNetConfig::new(16, 1, 8, 4.5)
        };
        assert_eq!(config, want);
        let again = serde_json::to_value(&config).expect("JSON");
        assert_eq!(TensorNetConfig::from_hyperparameters(&again).expect("the same"), config);
    }

    #[test]
    fn what_cannot_be_built_is_refused_by_name() {
        let good = serde_json::json!({
            "embedding_dimension": 16, "num_layers": 1, "num_rbf": 8, "cutoff_upper": 4.5,
            "max_z": 20,
        });
        let bad = [
            ("embedding_dimension", serde_json::json!(0), "embedding_dimension"),
            ("num_rbf", serde_json::json!(1), "num_rbf"),
            ("max_z", serde_json::json!(1 << 30), "max_z"),
            ("cutoff_upper", serde_json::json!(0.0), "cutoff_upper"),
            ("activation", serde_json::json!("relu"), "relu"),
            ("rbf_type", serde_json::json!("bessel"), "bessel"),
            ("model", serde_json::json!("equivariant-transformer"), "equivariant-transformer"),
            ("model", serde_json::json!("tensornet2"), "q_dim"),
            ("output_model", serde_json::json!("ScalarPlusWeightedCoulomb"), "output_model"),
            ("output_model", serde_json::json!("EquivariantScalar"), "EquivariantScalar"),
        ];
        assert!(TensorNetConfig::from_hyperparameters(&good).is_ok());
        for (key, value, named) in bad {
            let mut values = good.clone();
            values[key] = value;
            let error = TensorNetConfig::from_hyperparameters(&values).expect_err(named);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
