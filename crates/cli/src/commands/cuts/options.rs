//! Options of interventions (cuts), and options that select slots.

use crate::args::{one_of, one_of_words};
use crate::console::Console;
use crate::failure::Failure;
use crate::source::cache_home;
use clap::Args;
use linwright::compress::intervention::{
    ComponentStore, Cut, Decomposition, Intervention, Lname, Size, SlotSet, Storage, VendiOptions,
};
use linwright::ops::Role;
use linwright::run::shown;
use std::path::PathBuf;

/// Oversampling and power iterations of the randomised SVD.
const RANDOMISED: Decomposition = Decomposition::Randomised { oversample: 8, power: 2 };

/// Options of an intervention.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct CutArgs {
    /// Kind of intervention.
    #[arg(long, default_value = "rank-reduction", value_parser = one_of(&Intervention::ALL, Intervention::name))]
    pub(in crate::commands) intervention: Intervention,
    /// Rate of reduction as in the paper, from 0 to 10: keep (10 - rate) / 10 of the full rank.
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    rate: Vec<f64>,
    /// Share of the full rank to keep.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    rho: Vec<f64>,
    /// Share of the parameters to keep.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    keep: Vec<f64>,
    /// Number of components, or of rows, to keep.
    #[arg(long, value_delimiter = ',', value_name = "R")]
    rank: Vec<usize>,
    /// Keep the fewest components with this share of the sum of squared singular values.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    energy: Vec<f64>,
    /// Keep the components above the Marchenko–Pastur edge of a random matrix.
    #[arg(long, alias = "marchenko_pastur")]
    marchenko_pastur: bool,
    /// Use a randomised SVD, which computes only the leading components.
    #[arg(long)]
    randomised: bool,
    /// Reproduce the paper's code where it differs, including its defects.
    #[arg(long)]
    compat: bool,
    /// Storage of an edited weight; `auto` stores factors where they have fewer parameters.
    #[arg(long, default_value = "auto", value_parser = one_of(&Storage::ALL, Storage::name))]
    storage: Storage,
    /// Prefer rows of small norm (vendi).
    #[arg(long, alias = "use_quality", alias = "use-quality")]
    quality: bool,
    /// Choose the most similar rows instead of the most diverse (vendi).
    #[arg(long, alias = "min_diversity", alias = "min-diversity")]
    minimise: bool,
    /// Parameter gamma of the Gaussian kernel of rows (vendi) [default: from the median distance].
    #[arg(long)]
    gamma: Option<f64>,
    /// Seed of random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory that caches decompositions of weights [default: linwright/components in the
    /// user's cache].
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Do not cache decompositions of weights.
    #[arg(long, alias = "no_cache")]
    no_cache: bool,
}

impl CutArgs {
    /// Every given size, grouped by unit.
    pub(in crate::commands) fn sizes(&self) -> Result<Vec<Size>, Failure> {
        let mut sizes: Vec<Size> = self.rate.iter().copied().map(Size::Rate).collect();
        sizes.extend(self.rho.iter().copied().map(Size::Rho));
        sizes.extend(self.keep.iter().copied().map(Size::Keep));
        sizes.extend(self.rank.iter().copied().map(Size::Rank));
        sizes.extend(self.energy.iter().copied().map(Size::Energy));
        sizes.extend(self.marchenko_pastur.then_some(Size::MarchenkoPastur));
        if sizes.is_empty() && self.intervention == Intervention::Zero {
            return Ok(vec![Size::Rate(10.0)]);
        }
        if sizes.is_empty() {
            return Err(Failure::usage("no size is given: how much of the weights is kept?")
                .hint("give --rate, --rho, --keep, --rank, --energy or --marchenko-pastur"));
        }
        for size in &sizes {
            size.check().map_err(Failure::usage)?;
        }
        for (index, size) in sizes.iter().enumerate() {
            if sizes[..index].contains(size) {
                return Err(Failure::usage(format!("{size} is given twice")));
            }
        }
        Ok(sizes)
    }

    /// The intervention with this size.
    pub(in crate::commands) fn cut(&self, size: Size) -> Cut {
        let vendi =
            VendiOptions { quality: self.quality, minimise: self.minimise, gamma: self.gamma };
        Cut {
            decomposition: if self.randomised { RANDOMISED } else { Decomposition::Exact },
            storage: self.storage,
            compat: self.compat,
            vendi,
            seed: self.seed,
            ..Cut::new(self.intervention, size)
        }
    }

    /// The cache of decompositions: the given directory, or the default one if it can be written.
    pub(in crate::commands) fn store(&self, console: &Console) -> Result<ComponentStore, Failure> {
        if self.no_cache {
            return Ok(ComponentStore::none());
        }
        if let Some(directory) = &self.cache {
            return Ok(ComponentStore::open(directory)?);
        }
        let Some(directory) = cache_home().map(|home| home.join("linwright/components")) else {
            console.note(
                "note: neither XDG_CACHE_HOME nor HOME is set, so decompositions are not cached",
            );
            return Ok(ComponentStore::none());
        };
        console.detail(|| format!("decompositions are cached in {}", directory.display()));
        ComponentStore::open(&directory).or_else(|error| {
            console.note(&format!("note: decompositions are not cached: {error}"));
            Ok(ComponentStore::none())
        })
    }
}

/// Options that select slots.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct SlotArgs {
    /// Weights by the names of the paper: k_proj, q_proj, v_proj, out_proj, fc_in, fc_up, fc_out,
    /// mlp, attn, all, dont.
    #[arg(long, value_delimiter = ',', value_parser = one_of_words(&Lname::ALL, Lname::name, Lname::other_names))]
    pub(in crate::commands) lname: Vec<Lname>,
    /// Layers, counted from zero: `26`, `27-17`, `0,3`; -1 means all layers at once.
    #[arg(long, value_name = "LAYERS", allow_hyphen_values = true)]
    lnum: Option<String>,
}

impl SlotArgs {
    /// The layers, in order; none if all at once.
    pub(in crate::commands) fn layers(&self) -> Result<Option<Vec<usize>>, Failure> {
        match self.lnum.as_deref() {
            None | Some("-1") => Ok(None),
            Some(text) => layers(text).map(Some),
        }
    }

    /// Whether `--lnum -1` was given.
    pub(in crate::commands) fn all_at_once(&self) -> bool {
        self.lnum.as_deref() == Some("-1")
    }

    /// The layers as a set.
    pub(in crate::commands) fn set(
        &self,
        roles: Vec<Role>,
        pattern: Option<String>,
    ) -> Result<SlotSet, Failure> {
        if self.lname.is_empty() && roles.is_empty() && pattern.is_none() {
            return Err(Failure::usage("no weights are selected")
                .hint("give --lname NAME, --roles ROLE or --site PATTERN, and --lnum LAYER"));
        }
        Ok(SlotSet { lnames: self.lname.clone(), roles, layers: self.layers()?, pattern })
    }
}

/// Parses `26`, `27-17`, `0,3` and their combinations, in the order given.
fn layers(text: &str) -> Result<Vec<usize>, Failure> {
    let wrong = || {
        let text = shown(text);
        Failure::usage(format!(
            "--lnum \"{text}\": expected layers from zero such as 26, 27-17 or 0,3, or -1 for all at once"
        ))
    };
    let mut layers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        match part.split_once('-') {
            None => layers.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from.abs_diff(to) > 100_000 {
                    return Err(wrong());
                }
                match from <= to {
                    true => layers.extend(from..=to),
                    false => layers.extend((to..=from).rev()),
                }
            }
        }
    }
    match layers.iter().enumerate().find(|(index, layer)| layers[..*index].contains(layer)) {
        Some((_, layer)) => Err(Failure::usage(format!("--lnum names layer {layer} twice"))),
        None => Ok(layers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_rise_and_fall() {
        assert_eq!(layers("26").unwrap(), [26]);
        assert_eq!(layers("5-3,0").unwrap(), [5, 4, 3, 0]);
        assert_eq!(layers("1-3").unwrap(), [1, 2, 3]);
        for wrong in ["", "a", "1-", "3,3", "2-1,1", "-2", "0-99999999"] {
            assert!(layers(wrong).is_err(), "{wrong}");
        }
    }
}
