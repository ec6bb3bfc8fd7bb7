//! Options of cuts and of slots.

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

/// Directions beyond the rank, and steps of power iteration, of a randomised decomposition.
const RANDOMISED: Decomposition = Decomposition::Randomised { oversample: 8, power: 2 };

/// What is taken away.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct CutArgs {
    /// What is taken away.
    #[arg(long, default_value = "rank-reduction", value_parser = one_of(&Intervention::ALL, Intervention::name))]
    pub(in crate::commands) intervention: Intervention,
    /// How much is taken away, from 0 to 10, as in the paper: rank (10 - rate) / 10 of the full
    /// one.
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    rate: Vec<f64>,
    /// Share of the rank that stays.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    rho: Vec<f64>,
    /// Share of the parameters that stays.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    keep: Vec<f64>,
    /// Number of components, or of rows, that stay.
    #[arg(long, value_delimiter = ',', value_name = "R")]
    rank: Vec<usize>,
    /// The fewest components with this share of the squares of the singular values.
    #[arg(long, value_delimiter = ',', value_name = "SHARE")]
    energy: Vec<f64>,
    /// The components above what a random matrix would have.
    #[arg(long, alias = "marchenko_pastur")]
    marchenko_pastur: bool,
    /// Find components from random directions, not all of them.
    #[arg(long)]
    randomised: bool,
    /// Cut as the paper's code does, with its faults, where that differs.
    #[arg(long)]
    compat: bool,
    /// How a cut weight is kept; `auto` as factors where they are fewer numbers.
    #[arg(long, default_value = "auto", value_parser = one_of(&Storage::ALL, Storage::name))]
    storage: Storage,
    /// Prefer short rows (vendi).
    #[arg(long, alias = "use_quality", alias = "use-quality")]
    quality: bool,
    /// Choose rows that are as alike as can be (vendi).
    #[arg(long, alias = "min_diversity", alias = "min-diversity")]
    minimise: bool,
    /// Width of the kernel of rows (vendi) [default: by the median of the distances].
    #[arg(long)]
    gamma: Option<f64>,
    /// Where random numbers come from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory in which components of weights are kept [default: linwright/components in the
    /// user's cache].
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Keep no components of weights.
    #[arg(long, alias = "no_cache")]
    no_cache: bool,
}

impl CutArgs {
    /// Every size that was given, those of a unit together.
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
            return Err(Failure::usage("nothing says how much stays")
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

    /// A cut of this size.
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

    /// Where components are kept: where the user says, or the usual place, if that is within reach.
    pub(in crate::commands) fn store(&self, console: &Console) -> Result<ComponentStore, Failure> {
        if self.no_cache {
            return Ok(ComponentStore::none());
        }
        if let Some(directory) = &self.cache {
            return Ok(ComponentStore::open(directory)?);
        }
        let Some(directory) = cache_home().map(|home| home.join("linwright/components")) else {
            console.note("note: neither XDG_CACHE_HOME nor HOME is set, so no components are kept");
            return Ok(ComponentStore::none());
        };
        console.detail(|| format!("components are kept in {}", directory.display()));
        ComponentStore::open(&directory).or_else(|error| {
            console.note(&format!("note: no components are kept: {error}"));
            Ok(ComponentStore::none())
        })
    }
}

/// Which slots.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct SlotArgs {
    /// Names of the paper: k_proj, q_proj, v_proj, out_proj, fc_in, fc_up, fc_out, mlp, attn, all,
    /// dont.
    #[arg(long, value_delimiter = ',', value_parser = one_of_words(&Lname::ALL, Lname::name, Lname::other_names))]
    pub(in crate::commands) lname: Vec<Lname>,
    /// Layers, from zero: `26`, `27-17`, `0,3`; -1 is all of them at once.
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

    /// As a set.
    pub(in crate::commands) fn set(
        &self,
        roles: Vec<Role>,
        pattern: Option<String>,
    ) -> Result<SlotSet, Failure> {
        if self.lname.is_empty() && roles.is_empty() && pattern.is_none() {
            return Err(Failure::usage("nothing says which weights are cut")
                .hint("give --lname NAME, --roles ROLE or --site PATTERN, and --lnum LAYER"));
        }
        Ok(SlotSet { lnames: self.lname.clone(), roles, layers: self.layers()?, pattern })
    }
}

/// `26`, `27-17`, `0,3` and their mixtures, in the order given.
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
