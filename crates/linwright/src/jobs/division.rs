//! How several processes do one job.

/// How several processes divide the work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Not at all.
    Whole,
    /// By shards with an output each, which [`Merge`](super::Merge) reads.
    Merged,
    /// By shards that share one directory; the same job without a shard finishes it there.
    Shared,
    /// By processes that run together and exchange what they find, as ranks of MPI do.
    Exchanged,
}

impl Division {
    /// Whether processes that do not know of each other can divide the work.
    #[must_use]
    pub fn has_shards(self) -> bool {
        matches!(self, Self::Merged | Self::Shared)
    }
}
