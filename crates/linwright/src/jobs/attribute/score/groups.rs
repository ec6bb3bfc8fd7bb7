//! Rankings by groups of layers.

use super::AttributeScore;
use super::scoring::check_sum;
use crate::jobs::attribute::{Opened, Scorer, Subject};
use crate::jobs::kit::{Failure, Session};
use linwright_attribute::{Attribution, Top};
use linwright_ops::SlotSet;
use linwright_run::shown;
use linwright_tensor::Mat;
use std::collections::BTreeSet;

/// The best examples for each query, by pattern of a group.
#[derive(Default)]
pub(super) struct Groups(pub(super) Vec<(String, Top)>);

impl Groups {
    /// Scores all examples by each group.
    ///
    /// # Errors
    /// [`Failure`] for a pattern without a layer of the store, and if something cannot be read.
    pub(super) fn of(
        job: &AttributeScore,
        opened: &Opened,
        scorer: &Scorer<'_>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        check_sum(job, "--groups")?;
        let layers: Vec<Vec<usize>> =
            job.groups.iter().map(|pattern| layers(pattern, opened)).collect::<Result<_, _>>()?;
        let (queries, prepared) = (scorer.queries.len(), scorer.prepare(session)?);
        let mut tops: Vec<Top> = layers.iter().map(|_| Top::largest(queries, job.top)).collect();
        let attribution = Attribution::open(&opened.store)?;
        attribution.scores_of_groups(prepared, &layers, session, &mut |first, scores| {
            for (group, top) in tops.iter_mut().enumerate() {
                let of = |i: usize, query: usize| scores.at(i, group * queries + query);
                top.add(first, &Mat::from_fn(scores.rows(), queries, of));
            }
        })?;
        Ok(Self(job.groups.iter().cloned().zip(tops).collect()))
    }
}

/// The layers of a store that a pattern names.
fn layers(pattern: &str, opened: &Opened) -> Result<Vec<usize>, Failure> {
    let set: SlotSet = SlotSet { patterns: vec![pattern.to_owned()], ..SlotSet::default() };
    let named = match &opened.subject {
        Subject::Text(model) => set.of(&model.loaded.decoder)?,
        Subject::Net(net) => set.of(&net.net)?,
    };
    let named: BTreeSet<String> = named.into_iter().map(|site| site.0).collect();
    let all = opened.store.manifest().layers.iter().enumerate();
    let found: Vec<usize> =
        all.filter(|(_, layer)| named.contains(&layer.site)).map(|(index, _)| index).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Failure::usage(format!(
            "--groups {}: the store has no gradients of such a layer",
            shown(pattern)
        ))),
    }
}
