//! How several processes do one job.

/// How several processes divide the work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Not at all.
    Whole,
    /// By shards with an output each, which `linwright merge` reads.
    Merged,
    /// By shards that share one directory; the same job without a shard finishes it there.
    Shared,
    /// By processes that exchange what they find, through the folder of the output or by MPI.
    Exchanged,
    /// By processes that exchange what they find, through the folder of the output alone.
    Together,
}

impl Division {
    /// Whether the work is divided by shards.
    #[must_use]
    pub fn has_shards(self) -> bool {
        self != Self::Whole
    }

    /// Whether shards wait for each other, so that all must run at the same time.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::Exchanged | Self::Together)
    }
}
