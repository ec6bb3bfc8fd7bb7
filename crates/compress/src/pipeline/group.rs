//! The sites that read one input: found in the store, or captured and fitted, by a team.

use super::{CHECKPOINT_EVERY, Context, Forward, key_of, needs};
use crate::fit_to::FitTo;
use crate::intervention::{Cuttable, components_of, weight_of};
use crate::methods::{Fit, FitProblem};
use crate::plan::{Edit, InputEdits, SlotEdit};
use crate::{CompressError, stored_fit};
use linwright_measure::capture::{Evidence, Lockstep, SiteCapture, Wanted};
use linwright_ops::{LinearSlot, Network, SiteId};
use linwright_run::team::{Members, Team, TeamError};
use linwright_run::{Fingerprint, Measured, Monitor, Store};
use linwright_train::Checkpoint;

/// Where the inputs of sites come from.
pub(super) struct Text<'t, 'a, N: Network> {
    pub(super) lockstep: &'t mut Lockstep<'a, N>,
    /// The network with all earlier edits.
    pub(super) edited: &'t N,
    /// Rows of the examples that fits see.
    pub(super) rows: usize,
}

/// Fits of the sites of a group.
pub(super) enum Found {
    /// All of them, which every member has.
    All(Vec<Fit>),
    /// Those that this member owns.
    Own(Vec<Option<Fit>>),
}

/// The sites that read one input.
pub(super) struct GroupJob<'a> {
    pub(super) group: InputEdits<'a>,
    /// Identify the fits.
    pub(super) prints: Vec<Fingerprint>,
    /// Seed of the plan.
    seed: u64,
    /// The number of sites before, and of all.
    pub(super) places: [usize; 2],
}

impl<'a> GroupJob<'a> {
    /// The groups of a plan, in order.
    pub(super) fn all(
        work: Vec<InputEdits<'a>>,
        seed: u64,
        context: &Context<'_>,
        examples: Option<String>,
    ) -> Vec<Self> {
        let mut chain = Fingerprint::of(&[
            ("version", &env!("CARGO_PKG_VERSION")),
            ("biases", &"fitted along"),
            ("targets", &"of inputs where these are fewer"),
            ("fitted to", &context.fit_to.name()),
            ("model", &context.model_hash),
            ("examples", &examples),
            ("seed", &seed),
        ]);
        let total = work.iter().map(|group| group.slots.len()).sum();
        let mut before = 0;
        let job = |group: InputEdits<'a>| {
            let prints = prints(&group, &chain, context.fit_to);
            chain = Fingerprint::of(&[("prints", &prints)]);
            let places = [before, total];
            before += group.slots.len();
            Self { group, prints, seed, places }
        };
        work.into_iter().map(job).collect()
    }

    /// The fits of a group: those in the store of the first member, or else each member captures
    /// its part of the text, and fits what it owns.
    pub(super) fn find<N: Network>(
        &self,
        original: &N,
        text: Option<Text<'_, '_, N>>,
        context: &Context<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Found, CompressError> {
        let piece = self.piece();
        context.team.begin(&piece);
        if let Some(fits) = self.stored(context)? {
            context.team.end(&piece)?;
            return Ok(Found::All(fits));
        }
        let captures = match text {
            Some(text) => self.capture(text, context.team, monitor)?,
            None => self.group.slots.iter().map(|_| None).collect(),
        };
        let (mut own, [before, total]) = (Vec::new(), self.places);
        let slots = self.group.slots.iter().zip(&self.prints).zip(&captures);
        for (number, ((SlotEdit { site, edit, .. }, print), capture)) in (before..).zip(slots) {
            if !context.team.owns(number) {
                own.push(None);
                continue;
            }
            let slot = original.slot(site).expect("the site was found in the plan");
            let evidence = capture.as_ref().map(|capture| &capture.evidence);
            let place = [number + 1, total];
            let rows = edit.method.part().map(|part| part.rows(original, site)).transpose()?;
            let (part_rows, seed) = (rows.as_deref(), self.seed);
            let job = SiteJob { evidence, slot, edit, part_rows, seed, print, place };
            own.push(Some(fit_site(&job, context, monitor)?));
        }
        Ok(Found::Own(own))
    }

    /// The fits of all members, which the first one keeps.
    pub(super) fn shared(
        &self,
        found: Found,
        context: &Context<'_>,
    ) -> Result<Vec<Fit>, CompressError> {
        let own = match found {
            Found::All(fits) => return Ok(fits),
            Found::Own(own) => own,
        };
        let (team, [before, _], piece) = (context.team, self.places, self.piece());
        team.begin(&piece);
        let slots = self.group.slots.iter().zip(&self.prints).zip(own);
        let all = (before..).zip(slots).map(|(number, ((SlotEdit { site, .. }, print), own))| {
            let owner = team.owner(number);
            let fit = shared(team, owner, site, own)?;
            // In a store that all share, whoever is past this finds it there when it comes again.
            let lacks = |store: &Store| match team.shared_store() {
                Some(_) => !stored_fit::has(store, print),
                None => team.rank() != owner,
            };
            if let Some(store) = context.store.filter(|store| lacks(store)) {
                stored_fit::put(store, print, site, &fit)?;
            }
            Ok(fit)
        });
        let fits = all.collect::<Result<_, CompressError>>()?;
        team.end(&piece)?;
        Ok(fits)
    }

    /// Identifies the fits together.
    fn piece(&self) -> Fingerprint {
        Fingerprint::of(&[("prints", &self.prints)])
    }

    /// Captures the sites for their owners.
    fn capture<N: Network>(
        &self,
        text: Text<'_, '_, N>,
        team: &dyn Team,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<Option<SiteCapture>>, CompressError> {
        let Text { lockstep, edited, rows } = text;
        let group = &self.group;
        let role = |slot: &SlotEdit<'_>| {
            edited.slot(&slot.site).map_or_else(String::new, |s| s.role().to_string())
        };
        let roles: Vec<String> = group.slots.iter().map(role).collect();
        monitor.step(&format!("layer {}: capturing {} inputs", group.layer, roles.join(", ")));
        let sites = group.slots.iter().map(|slot| &slot.site);
        let wanted: Vec<Wanted<'_>> = sites
            .zip(needs(group, edited, rows))
            .map(|(site, needs)| Wanted { site, needs })
            .collect();
        let owns = |member: usize, index: usize| team.owner(self.places[0] + index) == member;
        Ok(lockstep.capture_for(edited, &wanted, &owns, monitor)?)
    }

    /// The fits of all sites, if all are in the store of the first member of the team, or in the
    /// one that all share.
    fn stored(&self, context: &Context<'_>) -> Result<Option<Vec<Fit>>, CompressError> {
        let get = |store: &Store| -> Result<Option<Vec<Fit>>, CompressError> {
            self.prints.iter().map(|print| stored_fit::get(store, print)).collect()
        };
        let team = context.team;
        let known = context.store.map(get).transpose()?.flatten();
        if team.size() == 1 || team.shared_store().is_some() {
            return Ok(known);
        }
        let is_known = (team.rank() == 0).then(|| vec![u8::from(known.is_some())]);
        if team.broadcast(0, is_known)? != [1] {
            return Ok(None);
        }
        let known = known.into_iter().flatten().map(Some).chain(std::iter::repeat_with(|| None));
        let sites = self.group.slots.iter().map(|slot| &slot.site);
        let all = sites.zip(known).map(|(site, fit)| shared(team, 0, site, fit));
        all.collect::<Result<_, _>>().map(Some)
    }
}

/// The fit that a member of the team has, on all.
fn shared(
    team: &dyn Team,
    from: usize,
    site: &SiteId,
    own: Option<Fit>,
) -> Result<Fit, CompressError> {
    let message = match &own {
        Some(fit) if team.size() > 1 => Some(stored_fit::to_bytes(site, fit)?),
        _ => None,
    };
    let message = team.broadcast(from, message)?;
    match own {
        // Of members that may start again the message stands: its seconds may be others.
        Some(fit) if team.shared_store().is_none() => Ok(fit),
        _ => stored_fit::of_bytes(&message)
            .map_err(|reason| CompressError::Team(TeamError { rank: from, reason })),
    }
}

/// Identifies each fit of a group by everything that it depends on.
fn prints(group: &InputEdits<'_>, chain: &Fingerprint, fit_to: FitTo<'_>) -> Vec<Fingerprint> {
    let print = |SlotEdit { site, edit, .. }: &SlotEdit<'_>| {
        let (method, size, ridge) = (&edit.method, &edit.size, fit_to.ridge(site));
        Fingerprint::of(&[
            ("chain", chain),
            ("site", site),
            ("method", method),
            ("size", size),
            ("ridge", &ridge),
        ])
    };
    group.slots.iter().map(print).collect()
}

/// A site that an edit changes.
struct SiteJob<'a> {
    /// What goes into it and should come out, if there is calibration text.
    evidence: Option<&'a Evidence>,
    /// The slot of the original model.
    slot: &'a LinearSlot,
    edit: &'a Edit,
    /// Output rows of the part that the edit changes, if it changes one.
    part_rows: Option<&'a [usize]>,
    /// Seed of the plan.
    seed: u64,
    /// Identifies the fit.
    print: &'a Fingerprint,
    /// Its number among all sites, from one, and how many there are.
    place: [usize; 2],
}

fn fit_site(
    job: &SiteJob<'_>,
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Fit, CompressError> {
    let SiteJob { evidence, slot, edit, part_rows, seed, print, place: [number, total] } = *job;
    // What stands in a store that all share, all have been told: until then it is kept apart.
    let apart = context.team.shared_store().and(context.team.own_folder());
    let apart = apart.map(|folder| Store::at(&folder));
    let store = apart.as_ref().or(context.store);
    for store in apart.iter().chain(context.store) {
        if let Some(fit) = stored_fit::get(store, print)? {
            return Ok(fit);
        }
    }
    if monitor.interrupted() {
        return Err(CompressError::Interrupted);
    }
    let site = slot.id();
    monitor.step(&format!("{site}: fitting {} ({number} of {total})", edit.label()));
    // Checkpoints of the training, for one process at a time.
    let what = format!("fit of {site}: {}", edit.label());
    let unfinished = context.store.map(|store| store.unfinished(print, &what)).transpose()?;
    let checkpoint = unfinished.as_ref().and_then(|work| work.file("training"));
    let checkpoint = checkpoint.map(|path| Checkpoint {
        path,
        every: CHECKPOINT_EVERY,
        fingerprint: print.0.clone(),
    });
    let began = monitor.seconds();
    let components = match context.components {
        Some(store) if edit.method.traits().components.reads(edit.size) => {
            let weight = Cuttable::new(weight_of(slot)?, part_rows).weight;
            Some(components_of(store, site, &weight)?)
        }
        _ => None,
    };
    let problem = FitProblem {
        site,
        shape: slot.shape(),
        original: slot.op(),
        size: edit.size,
        evidence,
        components: components.as_ref(),
        bias: slot.bias(),
        key: key_of(seed, site, &edit.method, edit.size),
        ridge: context.fit_to.ridge(site),
        checkpoint: checkpoint.as_ref(),
        part_rows,
    };
    let mut fit = edit
        .method
        .fit(&problem, &mut Forward(monitor))
        .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
    fit.report.seconds = Measured(monitor.seconds() - began);
    if let Some(store) = store {
        stored_fit::put(store, print, site, &fit)?;
    }
    if let Some(unfinished) = unfinished {
        unfinished.finish()?;
    }
    Ok(fit)
}
