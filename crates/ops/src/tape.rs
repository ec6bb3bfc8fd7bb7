//! Tapes of intermediate results for the backward pass, and workspaces.

use linwright_tensor::{Mat, Scalar};

/// Intermediate results of one forward call, in the order the operator saved them. The memory is
/// kept between calls.
#[derive(Debug, Default)]
pub struct Tape<T> {
    saved: Vec<Mat<T>>,
    used: usize,
    children: Vec<Self>,
    children_used: usize,
}

impl<T: Scalar> Tape<T> {
    /// Clears the tape, keeping the memory. Each forward call starts with this.
    pub fn clear(&mut self) {
        (self.used, self.children_used) = (0, 0);
    }

    /// A new matrix on the tape, with unspecified contents.
    pub fn save(&mut self, rows: usize, cols: usize) -> &mut Mat<T> {
        if self.used == self.saved.len() {
            self.saved.push(Mat::default());
        }
        self.used += 1;
        let mat = &mut self.saved[self.used - 1];
        mat.resize(rows, cols);
        mat
    }

    /// A new empty tape for a nested operator.
    pub fn child(&mut self) -> &mut Self {
        if self.children_used == self.children.len() {
            self.children.push(Self::default());
        }
        self.children_used += 1;
        let child = &mut self.children[self.children_used - 1];
        child.clear();
        child
    }

    /// The `index`-th saved matrix.
    ///
    /// # Panics
    /// If there is none: the tape is empty or belongs to another operator.
    #[must_use]
    #[track_caller]
    pub fn saved(&self, index: usize) -> &Mat<T> {
        assert!(index < self.used, "matrix {index} of a tape that holds {}", self.used);
        &self.saved[index]
    }

    /// The tape of the `index`-th nested operator.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn child_at(&self, index: usize) -> &Self {
        assert!(index < self.children_used, "child {index} of {}", self.children_used);
        &self.children[index]
    }
}

/// A workspace: scratch memory kept between calls, so that hot loops do not allocate.
#[derive(Debug, Default)]
pub struct Workspace<T> {
    spare: Vec<Mat<T>>,
}

impl<T: Scalar> Workspace<T> {
    /// Takes a matrix with unspecified contents: the smallest that is large enough, or else the
    /// largest one grows. Return it when done.
    #[must_use]
    pub fn take(&mut self, rows: usize, cols: usize) -> Mat<T> {
        let needed = rows * cols;
        // Matrices of one size are taken and returned alternately: the last one usually matches.
        let sizes = self.spare.iter().map(Mat::capacity).enumerate().rev();
        let best = sizes.min_by_key(|(_, size)| match *size >= needed {
            true => (false, *size),
            false => (true, usize::MAX - size),
        });
        let mut mat = best.map_or_else(Mat::default, |(index, _)| self.spare.swap_remove(index));
        mat.resize(rows, cols);
        mat
    }

    /// Returns memory taken by [`Self::take`].
    pub fn give(&mut self, mat: Mat<T>) {
        self.spare.push(mat);
    }
}
