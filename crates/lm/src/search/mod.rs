//! Surgical search: a rank for each linear layer, from the last to the first, as small as the task
//! allows.
//!
//! Layers are visited from the last one down. At each one the ranks are tried from the smallest on,
//! on three chunks of the search documents; the largest of the three answers is kept if the model
//! is still as good on all search documents, otherwise the layer stays dense. The perplexity search
//! takes the smallest rank whose perplexity stays below a bound that grows by 0.5 % a layer.
//!
//! Source: Chavan, Lele and Gupta 2024 (arXiv:2405.13039) and its code (nyunAI/SFSD-LLM),
//! `surgical` and `perplexity_test`. Decisions are those of its algorithm;
//! [`decide`](accuracy::decide) takes shortcuts that cannot change them, and
//! [`decide_as_published`](accuracy::decide_as_published) takes none. Deviations: `acc` where a
//! task has no `acc_norm`; the last document is scored; all linear layers are visited by default.

pub mod accuracy;
mod candidates;
pub mod counts;
mod documents;
pub mod perplexity;
mod ranks;
pub mod report;
mod searched;
mod solution;
mod splits;
mod states;
mod walk;

pub use candidates::{Candidates, FeatureSpace};
pub use documents::{MetricName, TaskBlocks, TextWindows, part};
pub use ranks::{MAX_GROWTH, allowed_perplexity, search_ranks};
pub use searched::{Replacement, Reuse, Searched};
pub use solution::{Found, Solution};
pub use splits::Splits;
pub use walk::{Decision, Effort, Figures, Grounds, Target, Work, linears, search};
