//! The walk of a search over the linear layers of a model.

use super::accuracy::{self, Rule};
use super::counts::{Counts, Shapes};
use super::documents::{MetricName, TaskBlocks, TextWindows, part, result_of, right_in};
use super::{Candidates, Replacement, Reuse, Searched, Splits, allowed_perplexity, perplexity};
use super::{Solution, search_ranks};
use crate::LmError;
use crate::cuts::{Variant, Variants};
use crate::pieces::CELL;
use linwright_compress::CompressError;
use linwright_evaluate::{
    Comparison, Hooks, LanguageModel, LanguageModels, Prepared, RunOptions, Several, Subject, Task,
    TaskResult, compare, evaluate_each,
};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Stored, Transformer};
use linwright_ops::{LinearSlot, Network, Shape, SiteId, Sites};
use linwright_run::team::{Members, Team, TeamError};
use linwright_run::{Fingerprint, Measured, Monitor, PieceKey, Store};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a search scores.
pub enum Target<'a> {
    /// Right answers to the documents of a task.
    Task {
        /// The task.
        task: &'a dyn Task,
        /// Division of its documents.
        splits: &'a Splits,
        /// Loss of accuracy that is allowed.
        delta: f64,
        /// The metric; `acc_norm` or `acc` by default.
        metric: Option<&'a str>,
        /// Whether the last document of the test part is lost, as in the published code.
        compat: bool,
    },
    /// Perplexity of a text.
    Text {
        /// The text that selects.
        search: &'a TextWindows,
        /// The text that tests.
        test: &'a TextWindows,
        /// Growth of the perplexity that is allowed from layer to layer.
        growth: f64,
    },
}

/// Model and options of a search.
pub struct Work<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Pooling of text embeddings, for tasks that compare texts.
    pub sentence: Option<&'a Sentence>,
    /// Longest input in tokens; by default that of the model.
    pub max_length: Option<usize>,
    /// Batching options.
    pub run: RunOptions,
    /// The slots to visit, in the order of computation.
    pub sites: &'a [SiteId],
    /// Ranks to try below that at which factors are as large as the weight; by default those of
    /// [`search_ranks`].
    pub ranks: Option<&'a [usize]>,
    /// Whether hidden states, contexts and early decisions save work: the decisions are the same
    /// without.
    pub shares: bool,
    /// Largest size of the hidden states that are kept.
    pub state_bytes: usize,
    /// Identifies everything that decisions depend on.
    pub print: Fingerprint,
    /// Store of finished decisions, which all members of the team share.
    pub store: &'a Store,
    /// The processes that search together: they score different blocks at once.
    pub team: &'a dyn Team,
    /// A found model with the numbers that its file will have, by which it is judged.
    pub as_saved: &'a dyn Fn(&Transformer) -> Result<Stored, LmError>,
}

/// Scores that a decision was taken by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grounds {
    /// Right answers.
    Accuracy(accuracy::Verdict),
    /// Perplexities.
    Perplexity {
        /// Largest perplexity allowed.
        allowed: f64,
        /// The checks.
        verdict: perplexity::Verdict,
    },
}

/// The decision for one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Index of the linear layer, in the order of computation.
    pub index: usize,
    /// Its slot.
    pub site: SiteId,
    /// Its role.
    pub role: String,
    /// Its layer of the model.
    pub layer: usize,
    /// Shape of its weight.
    pub shape: Shape,
    /// The ranks, of which the last stands for the dense layer.
    pub ranks: Vec<usize>,
    /// Scores and checks.
    pub grounds: Grounds,
    /// The accepted rank; none for the dense layer.
    pub rank: Option<usize>,
    /// Parameters of the model after the decision.
    pub parameters: u64,
    /// Multiply-adds of the model after the decision, on 64 tokens.
    pub macs: Counts,
    /// Stages of single tokens that the published steps compute, at least.
    pub published_passes: u64,
    /// Stages of single tokens that were computed, and seconds; zero where it is not stored.
    #[serde(default)]
    pub effort: Measured<Effort>,
}

/// Work of a decision or a search. It differs after an interruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Stages of single tokens.
    pub passes: u64,
    /// Wall time.
    pub seconds: f64,
}

/// The dense and the found model on one part of the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figures {
    /// Of a task.
    Task {
        /// The metric that selected.
        metric: String,
        /// Accuracies of both models on the search documents, which selected.
        search: [f64; 2],
        /// Number of search documents.
        documents: usize,
        /// The dense model on test documents.
        dense: Box<TaskResult>,
        /// The found model on test documents.
        found: Box<TaskResult>,
        /// Their paired differences.
        comparisons: Vec<Comparison>,
    },
    /// Of a text.
    Text {
        /// Perplexities of both models on the search part, which selected.
        search: [f64; 2],
        /// Perplexities of both models on the test part.
        test: [f64; 2],
        /// Windows of the two parts.
        windows: [usize; 2],
    },
}

/// Number of documents in each block of a task and of right answers of the dense model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Base {
    metric: MetricName,
    right: Vec<usize>,
}

/// Searches ranks of the slots of a model, from the last one down. The first member of a team alone
/// tests what is found; the others get nothing.
///
/// # Errors
/// [`LmError`]; finished decisions are in the store.
pub fn search(
    work: &Work<'_>,
    target: &Target<'_>,
    candidates: &dyn Candidates,
    monitor: &mut dyn Monitor,
) -> Result<Option<Solution>, LmError> {
    let began = monitor.seconds();
    work.team.agree(&format!("{} with {}", work.print.0, parallel::instruction_set()))?;
    let shared = RefCell::new(monitor);
    let cancelled = || shared.borrow().interrupted();
    let walk = Walk { work, candidates, monitor: &shared, cancelled: &cancelled };
    let mut solution = match target {
        Target::Task { task, splits, delta, metric, compat } => {
            let test = part(*task, &splits.test(*compat))?;
            let by_task = ByTask { task: *task, splits, delta: *delta, metric: *metric };
            walk.by_task(&by_task, test.as_ref())
        }
        Target::Text { search, test, growth } => walk.by_text(search, test, *growth),
    }?;
    if let Some(solution) = &mut solution {
        solution.effort.seconds = shared.borrow().seconds() - began;
    }
    work.model.release_scratch();
    Ok(solution)
}

/// A search by right answers.
struct ByTask<'a> {
    task: &'a dyn Task,
    splits: &'a Splits,
    delta: f64,
    metric: Option<&'a str>,
}

/// A layer to decide.
struct Question<'q> {
    index: usize,
    site: &'q SiteId,
    ranks: &'q [usize],
}

/// A decision, before it is carried out.
struct Decided {
    grounds: Grounds,
    /// Index of the accepted rank.
    level: Option<usize>,
    /// Tokens that the published steps score, at least.
    published: u64,
}

/// Decides a layer.
type Decide<'d> = dyn FnMut(&mut Searched<'_>, &Question<'_>) -> Result<Decided, LmError> + 'd;

/// Scores the model with a layer at a rank in a block.
type Score<'s, T> = dyn FnMut(usize, usize) -> Result<T, LmError> + 's;

/// A score that members of a team tell each other.
trait Message: Copy {
    fn to_bytes(self) -> Vec<u8>;
    fn of_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Message for usize {
    fn to_bytes(self) -> Vec<u8> {
        (self as u64).to_le_bytes().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Self::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    }
}

impl Message for f64 {
    fn to_bytes(self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_le_bytes(bytes.try_into().ok()?))
    }
}

struct Walk<'w, 'm> {
    work: &'w Work<'w>,
    candidates: &'w dyn Candidates,
    monitor: &'w RefCell<&'m mut dyn Monitor>,
    cancelled: &'w dyn Fn() -> bool,
}

impl Walk<'_, '_> {
    fn by_task(&self, by: &ByTask<'_>, test: &dyn Task) -> Result<Option<Solution>, LmError> {
        let work = self.work;
        let subject = Subject::new(work.model, work.tokenizer)
            .with_max_length(work.max_length)
            .with_sentence(work.sentence);
        let parts = TaskBlocks::new(by.task, by.splits)?;
        let blocks = parts.prepared(&subject, &work.run, self.cancelled)?;
        let tokens: Vec<u64> = blocks.iter().map(Prepared::tokens_apart).collect();
        let mut searched = self.searched(tokens.iter().sum::<u64>() as usize);
        self.monitor.borrow_mut().step("the dense model on the search documents");
        let base = self.base(&blocks, &searched, by.metric)?;
        let rule = Rule::new(parts.blocks.clone(), &base.right, by.delta);
        let metric = &base.metric;
        let mut decide = |searched: &mut Searched<'_>, question: &Question<'_>| {
            let levels = question.ranks.len();
            let verdict = self.scored(
                searched,
                question,
                blocks.len(),
                &mut |model, block| right_in(&blocks[block], model, metric, self.cancelled),
                &mut |right| match work.shares {
                    true => accuracy::decide(&rule, levels, right),
                    false => accuracy::decide_as_published(&rule, levels, right),
                },
            )?;
            let level = verdict.accepted.then_some(verdict.level);
            let (chunks, whole) = accuracy::published_scores(&verdict, levels);
            let of_chunk =
                |chunk: usize| tokens[rule.blocks.chunks[chunk].clone()].iter().sum::<u64>();
            let published = (0..3).map(|chunk| chunks[chunk] * of_chunk(chunk)).sum::<u64>()
                + whole * tokens.iter().sum::<u64>();
            Ok(Decided { grounds: Grounds::Accuracy(verdict), level, published })
        };
        let (decisions, passes) = self.all(&mut searched, &mut decide)?;
        if work.team.rank() > 0 {
            return Ok(None);
        }
        let saved = (work.as_saved)(searched.edited())?;
        let judged = self.judged(&saved.model);
        let mut right = 0;
        for block in &blocks {
            right += right_in(block, &judged, metric, self.cancelled)?;
        }
        let share = |right: usize| right as f64 / rule.whole.documents as f64;
        let [dense, found] = self.tested(test, &saved, &decisions)?;
        let found_only = std::slice::from_ref(&found);
        let comparisons = compare(found_only, std::slice::from_ref(&dense));
        let figures = Figures::Task {
            metric: metric.name.clone(),
            search: [share(rule.whole.base), share(right)],
            documents: rule.whole.documents,
            dense: Box::new(dense),
            found: Box::new(found),
            comparisons,
        };
        Ok(Some(self.solution(decisions, passes, figures, searched)))
    }

    fn by_text(
        &self,
        search: &TextWindows,
        test: &TextWindows,
        growth: f64,
    ) -> Result<Option<Solution>, LmError> {
        let work = self.work;
        let rows = search.rows();
        let mut searched = self.searched(rows);
        self.monitor.borrow_mut().step("the dense model on the search text");
        let print = Fingerprint::of(&[("search", &work.print), ("base", &"perplexity")]);
        let key = PieceKey::new(CELL, print);
        let base: f64 =
            work.store.finished(&key, || search.perplexity(&searched, self.cancelled))?;
        let linears = linears(work.model).len();
        let mut decide = |searched: &mut Searched<'_>, question: &Question<'_>| {
            let levels = question.ranks.len();
            let allowed = allowed_perplexity(base, growth, linears, question.index);
            let (blocks, tokens) = (search.blocks(), rows as u64);
            let bound = perplexity::Bound { blocks, tokens, allowed };
            let verdict = self.scored(
                searched,
                question,
                blocks,
                &mut |model, block| search.loss(block, model),
                &mut |loss| match work.shares {
                    true => perplexity::decide(&bound, levels, loss),
                    false => perplexity::decide_as_published(&bound, levels, loss),
                },
            )?;
            let level = verdict.level;
            let published = level.map_or(levels, |level| level + 1) as u64 * tokens;
            let grounds = Grounds::Perplexity { allowed, verdict };
            Ok(Decided { grounds, level, published })
        };
        let (decisions, passes) = self.all(&mut searched, &mut decide)?;
        if work.team.rank() > 0 {
            return Ok(None);
        }
        let saved = (work.as_saved)(searched.edited())?;
        let judged = self.judged(&saved.model);
        let found = search.perplexity(&judged, self.cancelled)?;
        self.monitor.borrow_mut().step("both models on the test text");
        let print = Fingerprint::of(&[("search", &work.print), ("test", &accepted(&decisions))]);
        let both = || -> Result<[f64; 2], LmError> {
            let before = test.perplexity(&self.searched(0), self.cancelled)?;
            Ok([before, test.perplexity(&judged, self.cancelled)?])
        };
        let test_figures = work.store.finished(&PieceKey::new(CELL, print), both)?;
        let figures = Figures::Text {
            search: [base, found],
            test: test_figures,
            windows: [search.windows(), test.windows()],
        };
        Ok(Some(self.solution(decisions, passes, figures, searched)))
    }

    /// The unedited model, for search documents of so many tokens.
    fn searched(&self, rows: usize) -> Searched<'_> {
        let Work { model, tokenizer, max_length, sentence, shares, state_bytes, .. } = *self.work;
        let reuse = Reuse { shares, rows, bytes: state_bytes };
        Searched::new(model, tokenizer, max_length, sentence, reuse)
    }

    /// A model that is found, without states that others could use.
    fn judged<'j>(&'j self, model: &'j Transformer) -> Searched<'j> {
        let Work { tokenizer, max_length, sentence, .. } = *self.work;
        let reuse = Reuse { shares: false, rows: 0, bytes: 0 };
        Searched::new(model, tokenizer, max_length, sentence, reuse)
    }

    /// Right answers of the dense model.
    fn base(
        &self,
        blocks: &[Prepared<'_>],
        searched: &Searched<'_>,
        metric: Option<&str>,
    ) -> Result<Base, LmError> {
        let print = Fingerprint::of(&[("search", &self.work.print), ("base", &metric)]);
        self.work.store.finished(&PieceKey::new(CELL, print), || {
            let first = result_of(&blocks[0], searched, self.cancelled)?;
            let metric = MetricName::of(&first, metric)?;
            let right = |block| right_in(block, searched, &metric, self.cancelled);
            let right = blocks.iter().map(right).collect::<Result<_, _>>()?;
            Ok::<_, LmError>(Base { metric, right })
        })
    }

    /// Decides with a function of scores in so many blocks; the layer is dense afterwards. The
    /// members of a team score the wanted block and those after it, one each.
    fn scored<T: Message, V>(
        &self,
        searched: &mut Searched<'_>,
        question: &Question<'_>,
        blocks: usize,
        score: &mut dyn FnMut(&Searched<'_>, usize) -> Result<T, LmError>,
        decide: &mut dyn FnMut(&mut Score<'_, T>) -> Result<V, LmError>,
    ) -> Result<V, LmError> {
        let team = self.work.team;
        let (mut now, mut known) = (None, BTreeMap::new());
        let verdict = decide(&mut |level, block| {
            if let Some(found) = known.get(&(level, block)) {
                return Ok(*found);
            }
            if (self.cancelled)() {
                return Err(CompressError::Interrupted.into());
            }
            if now != Some(level) {
                let rank = question.ranks[level];
                let replacement = self.candidates.replacement(question.site, rank)?;
                searched.set(question.site, Some(&replacement))?;
                now = Some(level);
            }
            let open = (block..blocks).filter(|block| !known.contains_key(&(level, *block)));
            let next: Vec<usize> = open.take(team.size()).collect();
            let own = next.get(team.rank()).map(|own| score(searched, *own)).transpose()?;
            if team.size() == 1 {
                return own.ok_or_else(|| LmError::Search {
                    reason: format!("there is no block {block} of {blocks}"),
                });
            }
            let all = team.gathered(own.map_or_else(Vec::new, Message::to_bytes))?;
            for (rank, (block, found)) in next.iter().zip(all).enumerate() {
                let found = T::of_bytes(&found).ok_or_else(|| TeamError {
                    rank,
                    reason: format!("{} bytes are no score", found.len()),
                })?;
                known.insert((level, *block), found);
            }
            Ok(known[&(level, block)])
        });
        searched.set(question.site, None)?;
        verdict
    }

    /// Walks over all layers, from the last one down; returns the number of passes, too.
    fn all(
        &self,
        searched: &mut Searched<'_>,
        decide: &mut Decide<'_>,
    ) -> Result<(Vec<Decision>, u64), LmError> {
        let work = self.work;
        let all = linears(work.model);
        let stages = work.model.stages() as u64;
        let mut decisions: Vec<Decision> = Vec::new();
        for (done, site) in work.sites.iter().rev().enumerate() {
            let index = all.iter().position(|slot| slot.id() == site).ok_or_else(|| {
                LmError::Search { reason: format!("the layers of the model have no {site}") }
            })?;
            let shape = all[index].shape();
            let ranks = ranks_of(shape, work.ranks);
            {
                let mut monitor = self.monitor.borrow_mut();
                monitor.step(&format!("{site}: {} ranks", ranks.len()));
                monitor.whole(done as f64 / work.sites.len() as f64);
            }
            let print = Fingerprint::of(&[
                ("search", &work.print),
                ("site", site),
                ("accepted", &accepted(&decisions)),
            ]);
            work.team.begin(&print);
            let decision = work.store.finished(&PieceKey::new(CELL, print.clone()), || {
                let (began, passes) = (self.monitor.borrow().seconds(), searched.passes());
                let question = Question { index, site, ranks: &ranks };
                let Decided { grounds, level, published } = decide(searched, &question)?;
                let rank = level.map(|level| ranks[level]);
                self.put_rank(searched, site, rank)?;
                let seconds = self.monitor.borrow().seconds() - began;
                Ok::<_, LmError>(Decision {
                    index,
                    site: site.clone(),
                    role: all[index].role().to_string(),
                    layer: all[index].layer().unwrap_or_default(),
                    shape,
                    ranks: ranks.clone(),
                    grounds,
                    rank,
                    parameters: searched.edited().parameters(),
                    macs: Shapes::of(searched.edited()).counts(Shapes::TOKENS),
                    published_passes: published * stages,
                    effort: Measured(Effort { passes: searched.passes() - passes, seconds }),
                })
            })?;
            work.team.end(&print)?;
            self.put_rank(searched, site, decision.rank)?;
            decisions.push(decision);
        }
        Ok((decisions, searched.passes()))
    }

    fn put_rank(
        &self,
        searched: &mut Searched<'_>,
        site: &SiteId,
        rank: Option<usize>,
    ) -> Result<(), LmError> {
        let replacement: Option<Replacement> =
            rank.map(|rank| self.candidates.replacement(site, rank)).transpose()?;
        searched.set(site, replacement.as_ref())
    }

    /// Results of the dense and the found model on test documents.
    fn tested(
        &self,
        test: &dyn Task,
        Stored { model: saved, changed }: &Stored,
        decisions: &[Decision],
    ) -> Result<[TaskResult; 2], LmError> {
        let work = self.work;
        self.monitor.borrow_mut().step("both models on the test documents");
        let replaced: Vec<&SiteId> =
            accepted(decisions).into_iter().map(|(site, _)| site).collect();
        let is_replaced = |name: &String| replaced.iter().any(|site| site.0 == *name);
        let variants = [Variant::default(), Variant::of(saved, replaced.iter().copied())];
        let shared = Variants::new(work.model, work.tokenizer, &variants, work.max_length)
            .with_sentence(work.sentence);
        let [dense, found] = [work.model, saved].map(|model| self.judged(model));
        let apart: [&dyn LanguageModel; 2] = [dense.first(), found.first()];
        let apart = Several(&apart);
        // A file of 16 bits may change more than the layers that were replaced.
        let models: &dyn LanguageModels =
            if changed.iter().all(is_replaced) { &shared } else { &apart };
        let mut hooks = Hooks {
            progress: &mut |p| {
                self.monitor.borrow_mut().progress(p.done_tokens, p.total_tokens);
            },
            cancelled: self.cancelled,
            journal: None,
        };
        assert_eq!(models.count(), 2, "the dense and the found model");
        let results = evaluate_each(test, models, &work.run, &mut hooks, |result| result)?;
        let mut results = results.complete()?.into_iter();
        match (results.next(), results.next()) {
            (Some(dense), Some(found)) => Ok([dense, found]),
            _ => Err(LmError::Search { reason: "a model has no test result".to_owned() }),
        }
    }

    fn solution(
        &self,
        decisions: Vec<Decision>,
        passes: u64,
        figures: Figures,
        searched: Searched<'_>,
    ) -> Solution {
        let effort = Effort { passes, seconds: 0.0 };
        let network = searched.into_edited();
        Solution { decisions, figures, effort, network }
    }
}

/// Linear layers of the layers of a model, in the order of computation.
#[must_use]
pub fn linears(model: &Transformer) -> Vec<&LinearSlot> {
    model.slots().into_iter().filter(|slot| slot.layer().is_some()).collect()
}

/// The accepted ranks so far.
fn accepted(decisions: &[Decision]) -> Vec<(&SiteId, usize)> {
    decisions.iter().filter_map(|own| Some((&own.site, own.rank?))).collect()
}

/// The ranks to try, with the one at which factors are as large as the weight.
fn ranks_of(shape: Shape, own: Option<&[usize]>) -> Vec<usize> {
    let standard = search_ranks(shape);
    let (Some(own), Some(&last)) = (own, standard.last()) else { return standard };
    let mut ranks: Vec<usize> =
        own.iter().copied().filter(|rank| (1..last).contains(rank)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks.push(last);
    ranks
}
