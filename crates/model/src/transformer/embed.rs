//! Embeddings: the input of the first layer.

use super::Transformer;
use super::grads::TransformerGrads;
use super::lens::Lens;
use super::parts_backward::{SlotBackward, slot_backward, through_norm};
use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::error::ModelError;
use linwright_ops::{Tape, Workspace};
use linwright_tensor::Mat;
use linwright_tensor::kernels::elementwise::{add, scale};
use linwright_tensor::kernels::gemm::Write;
use linwright_tensor::kernels::norm::norm;

/// Intermediate results of an embedding for its backward pass.
#[derive(Debug, Default)]
pub(super) struct Embedded {
    /// The embedding before its projection.
    narrow: Mat<f32>,
    project: Tape<f32>,
    /// The sum of all embeddings before its norm.
    sum: Mat<f32>,
}

impl Transformer {
    /// Embeddings (rows, hidden) of the tokens of a batch, the input of the first layer.
    ///
    /// # Errors
    /// [`ModelError`] for an unknown token or token type, or a too long sequence.
    pub fn embed(&self, batch: &Batch) -> Result<Mat<f32>, ModelError> {
        let mut hidden = Mat::default();
        self.memory
            .lend(|memory| self.embed_into(batch, &mut hidden, &mut memory.workspace, None))?;
        Ok(hidden)
    }

    pub(super) fn embed_into(
        &self,
        batch: &Batch,
        into: &mut Mat<f32>,
        workspace: &mut Workspace<f32>,
        mut keep: Option<(&mut Embedded, &mut Lens<'_>)>,
    ) -> Result<(), ModelError> {
        let TransformerConfig { vocab, hidden, embedding_width, .. } = self.config;
        self.check_lengths(batch)?;
        into.resize(batch.len(), embedding_width);
        for (row, &token) in batch.tokens().iter().enumerate() {
            if token as usize >= vocab {
                return Err(ModelError::TokenOutOfRange { token, row, vocab });
            }
            self.weights.embedding.row(token as usize, Write::Set, into.row_mut(row));
        }
        if self.config.embedding_scale != 1.0 {
            scale(into.view_mut(), self.config.embedding_scale);
        }
        if let Some(project) = &self.weights.project_in {
            let mut wide = workspace.take(batch.len(), hidden);
            let tape = keep.as_mut().map(|(keep, _)| {
                keep.project.clear();
                &mut keep.project
            });
            project.forward(into.view(), wide.view_mut(), tape, workspace);
            if let Some((_, lens)) = &mut keep {
                lens.show(project, into.view(), wide.view());
            }
            std::mem::swap(into, &mut wide);
            match &mut keep {
                Some((keep, _)) => keep.narrow = wide,
                None => workspace.give(wide),
            }
        }
        self.add_tables(batch, into)?;
        self.weights.embedding.release();
        if let Some(weights) = &self.weights.embedding_norm {
            let mut normed = workspace.take(batch.len(), hidden);
            norm(into.view(), &weights.of(&self.config.norm, hidden), normed.view_mut());
            std::mem::swap(into, &mut normed);
            match &mut keep {
                Some((keep, _)) => keep.sum = normed,
                None => workspace.give(normed),
            }
        }
        Ok(())
    }

    /// Adds embeddings of token types and positions.
    fn add_tables(&self, batch: &Batch, into: &mut Mat<f32>) -> Result<(), ModelError> {
        if let Some(types) = &self.weights.types {
            let known = types.rows();
            for row in 0..batch.len() {
                let found = batch.types().map_or(0, |types| types[row]);
                if found as usize >= known {
                    return Err(ModelError::TypeOutOfRange { found, row, known });
                }
                types.row(found as usize, Write::Add, into.row_mut(row));
            }
        }
        if let Some(table) = &self.weights.positions {
            for (row, at) in self.position_rows(batch) {
                table.row(at, Write::Add, into.row_mut(row));
            }
        }
        Ok(())
    }

    /// Row of the position table for each row of a batch.
    fn position_rows(&self, batch: &Batch) -> impl Iterator<Item = (usize, usize)> {
        let start = self.config.learned_positions.map_or(0, |learned| learned.first);
        let spans = batch.spans().iter().zip(batch.first_positions());
        spans.flat_map(move |(span, first)| {
            let first = start + first;
            span.clone().enumerate().map(move |(nth, row)| (row, first + nth))
        })
    }

    /// Shows the gradient of the embedding's projection, and adds those of all embedding
    /// parameters, if they are wanted, from that of the embeddings.
    pub(super) fn embed_backward(
        &self,
        batch: &Batch,
        embedded: &Embedded,
        d_hidden: &mut Mat<f32>,
        mut grads: Option<&mut TransformerGrads>,
        (workspace, lens): (&mut Workspace<f32>, &mut Lens<'_>),
    ) {
        if let Some(weights) = &self.weights.embedding_norm {
            let grads = grads.as_mut().and_then(|grads| grads.parts.embedding_norm.as_mut());
            let mut before = workspace.take(d_hidden.rows(), d_hidden.cols());
            before.data_mut().fill(0.0);
            let of = (&self.config, weights);
            through_norm(of, &embedded.sum, d_hidden, &mut before, grads);
            std::mem::swap(d_hidden, &mut before);
            workspace.give(before);
        }
        if let Some(slot) = &self.weights.project_in {
            lens.show_gradient(slot, Some(embedded.narrow.view()), d_hidden.view());
        }
        if let Some(grads) = grads {
            self.tables_backward(batch, embedded, d_hidden, grads, workspace);
        }
    }

    /// Adds the gradients of the tables and of the projection between them.
    fn tables_backward(
        &self,
        batch: &Batch,
        embedded: &Embedded,
        d_hidden: &mut Mat<f32>,
        grads: &mut TransformerGrads,
        workspace: &mut Workspace<f32>,
    ) {
        let parts = &mut grads.parts;
        let add_row = |grad: &mut [f32], at: usize, d: &[f32]| {
            add(&mut grad[at * d.len()..(at + 1) * d.len()], d);
        };
        if let Some(grad) = &mut parts.positions {
            for (row, at) in self.position_rows(batch) {
                add_row(grad, at, d_hidden.row(row));
            }
        }
        if let Some(grad) = &mut parts.types {
            for row in 0..batch.len() {
                let kind = batch.types().map_or(0, |types| types[row]);
                add_row(grad, kind as usize, d_hidden.row(row));
            }
        }
        if let (Some(slot), Some(grads)) = (&self.weights.project_in, &mut parts.project_in) {
            let mut narrow = workspace.take(d_hidden.rows(), self.config.embedding_width);
            let args = SlotBackward {
                x: Some(&embedded.narrow),
                dy: d_hidden,
                tape: &embedded.project,
                dx: narrow.view_mut(),
                grads: Some(grads),
            };
            slot_backward(slot, args, workspace);
            std::mem::swap(d_hidden, &mut narrow);
            workspace.give(narrow);
        }
        if self.config.embedding_scale != 1.0 {
            scale(d_hidden.view_mut(), self.config.embedding_scale);
        }
        for (row, &token) in batch.tokens().iter().enumerate() {
            add_row(&mut parts.embedding, token as usize, d_hidden.row(row));
        }
    }
}
