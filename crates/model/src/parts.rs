//! The parts of a transformer in the order of computation.
//!
//! The type parameters (tables `T`, norms `N`, linear slots `S`) are names and shapes in a layout,
//! weights in a model and gradients in training. The list of parts and their order is defined only
//! here.

/// All parts of a transformer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts<T, N, S> {
    /// Token embedding (vocab, embedding width).
    pub(crate) embedding: T,
    /// Position embedding (positions, hidden).
    pub(crate) positions: Option<T>,
    /// Token type embedding (types, hidden).
    pub(crate) types: Option<T>,
    /// Norm of the sum of embeddings.
    pub(crate) embedding_norm: Option<N>,
    /// Projection from the embedding to a residual stream of another width.
    pub(crate) project_in: Option<S>,
    /// The layers.
    pub(crate) layers: Vec<LayerOf<N, S>>,
    /// Final norm.
    pub(crate) final_norm: Option<N>,
    /// Projection from the residual stream to a head of another width.
    pub(crate) project_out: Option<S>,
    /// Linear layer and norm before the output matrix of a masked language model.
    pub(crate) transform: Option<(S, N)>,
    /// Output matrix, unless it is tied to the embedding.
    pub(crate) head: Option<S>,
    /// Bias of a tied output matrix (vocab).
    pub(crate) tied_bias: Option<T>,
    /// Pooler of the first token.
    pub(crate) pooler: Option<S>,
}

/// A layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LayerOf<N, S> {
    /// Attention, if there is any.
    pub(crate) attention: Option<BranchOf<N, S>>,
    /// The MLP, if there is any.
    pub(crate) mlp: Option<BranchOf<N, S>>,
}

/// Attention or MLP of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BranchOf<N, S> {
    /// Norm of the input.
    pub(crate) before: Option<N>,
    /// Input projections (queries, keys, values, or gate and up); empty if a single linear layer
    /// replaces the block.
    pub(crate) inputs: Vec<S>,
    /// Query and key norms.
    pub(crate) inner: Vec<N>,
    /// Output projection.
    pub(crate) output: S,
    /// Norm of the output.
    pub(crate) after: Option<N>,
    /// Norm of the residual stream after the block's output is added.
    pub(crate) on_sum: Option<N>,
}

/// One part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<T, N, S> {
    Table(T),
    Norm(N),
    Slot(S),
}

/// Conversion of parts of one kind to another.
pub(crate) trait Convert<T, N, S> {
    type Table;
    type Norm;
    type Slot;
    type Error;

    fn table(&mut self, table: T) -> Result<Self::Table, Self::Error>;
    fn norm(&mut self, norm: N) -> Result<Self::Norm, Self::Error>;
    /// Converts a slot of a stage, counted from zero: attention and MLP of layer i are the stages
    /// 2i and 2i + 1.
    fn slot(&mut self, slot: S, stage: Option<usize>) -> Result<Self::Slot, Self::Error>;
}

macro_rules! each {
    ($each:ident, $branch:ident, $iter:ident $(, $mut:tt)?) => {
        impl<T, N, S> Parts<T, N, S> {
            /// All parts in the order of computation.
            pub(crate) fn $each(&$($mut)? self) -> Vec<Part<&$($mut)? T, &$($mut)? N, &$($mut)? S>> {
                let mut all = vec![Part::Table(&$($mut)? self.embedding)];
                all.extend(self.positions.$iter().map(Part::Table));
                all.extend(self.types.$iter().map(Part::Table));
                all.extend(self.embedding_norm.$iter().map(Part::Norm));
                all.extend(self.project_in.$iter().map(Part::Slot));
                for layer in &$($mut)? self.layers {
                    layer.attention.$iter().for_each(|branch| branch.$branch(&mut all));
                    layer.mlp.$iter().for_each(|branch| branch.$branch(&mut all));
                }
                all.extend(self.final_norm.$iter().map(Part::Norm));
                all.extend(self.project_out.$iter().map(Part::Slot));
                for (slot, norm) in self.transform.$iter() {
                    all.extend([Part::Slot(slot), Part::Norm(norm)]);
                }
                all.extend(self.head.$iter().map(Part::Slot));
                all.extend(self.tied_bias.$iter().map(Part::Table));
                all.extend(self.pooler.$iter().map(Part::Slot));
                all
            }
        }

        impl<N, S> BranchOf<N, S> {
            fn $branch<'a, T>(
                &'a $($mut)? self,
                all: &mut Vec<Part<T, &'a $($mut)? N, &'a $($mut)? S>>,
            ) {
                all.extend(self.before.$iter().map(Part::Norm));
                all.extend(self.inputs.$iter().map(Part::Slot));
                all.extend(self.inner.$iter().map(Part::Norm));
                all.push(Part::Slot(&$($mut)? self.output));
                all.extend(self.after.$iter().map(Part::Norm));
                all.extend(self.on_sum.$iter().map(Part::Norm));
            }
        }
    };
}

each!(each, push, iter);
each!(each_mut, push_mut, iter_mut, mut);

/// All parts after a conversion.
type Converted<C, T, N, S> = Parts<
    <C as Convert<T, N, S>>::Table,
    <C as Convert<T, N, S>>::Norm,
    <C as Convert<T, N, S>>::Slot,
>;

impl<T, N, S> Parts<T, N, S> {
    /// Converts every part, in the order of computation.
    ///
    /// # Errors
    /// The first error of `convert`.
    pub(crate) fn convert<C: Convert<T, N, S>>(
        self,
        convert: &mut C,
    ) -> Result<Converted<C, T, N, S>, C::Error> {
        let embedding = convert.table(self.embedding)?;
        let positions = self.positions.map(|table| convert.table(table)).transpose()?;
        let types = self.types.map(|table| convert.table(table)).transpose()?;
        let embedding_norm = self.embedding_norm.map(|norm| convert.norm(norm)).transpose()?;
        let project_in = self.project_in.map(|slot| convert.slot(slot, None)).transpose()?;
        let mut layers = Vec::with_capacity(self.layers.len());
        for (index, layer) in self.layers.into_iter().enumerate() {
            let attention = layer.attention.map(|b| b.convert(convert, 2 * index)).transpose()?;
            let mlp = layer.mlp.map(|b| b.convert(convert, 2 * index + 1)).transpose()?;
            layers.push(LayerOf { attention, mlp });
        }
        let final_norm = self.final_norm.map(|norm| convert.norm(norm)).transpose()?;
        let project_out = self.project_out.map(|slot| convert.slot(slot, None)).transpose()?;
        let transform = match self.transform {
            Some((slot, norm)) => Some((convert.slot(slot, None)?, convert.norm(norm)?)),
            None => None,
        };
        Ok(Parts {
            embedding,
            positions,
            types,
            embedding_norm,
            project_in,
            layers,
            final_norm,
            project_out,
            transform,
            head: self.head.map(|slot| convert.slot(slot, None)).transpose()?,
            tied_bias: self.tied_bias.map(|table| convert.table(table)).transpose()?,
            pooler: self.pooler.map(|slot| convert.slot(slot, None)).transpose()?,
        })
    }
}

impl<T, N, S> Parts<T, N, S> {
    /// References to all parts.
    pub(crate) fn as_refs(&self) -> Parts<&T, &N, &S> {
        Parts {
            embedding: &self.embedding,
            positions: self.positions.as_ref(),
            types: self.types.as_ref(),
            embedding_norm: self.embedding_norm.as_ref(),
            project_in: self.project_in.as_ref(),
            layers: self.layers.iter().map(LayerOf::as_refs).collect(),
            final_norm: self.final_norm.as_ref(),
            project_out: self.project_out.as_ref(),
            transform: self.transform.as_ref().map(|(slot, norm)| (slot, norm)),
            head: self.head.as_ref(),
            tied_bias: self.tied_bias.as_ref(),
            pooler: self.pooler.as_ref(),
        }
    }
}

impl<N, S> LayerOf<N, S> {
    fn as_refs(&self) -> LayerOf<&N, &S> {
        LayerOf {
            attention: self.attention.as_ref().map(BranchOf::as_refs),
            mlp: self.mlp.as_ref().map(BranchOf::as_refs),
        }
    }
}

impl<N, S> BranchOf<N, S> {
    fn as_refs(&self) -> BranchOf<&N, &S> {
        BranchOf {
            before: self.before.as_ref(),
            inputs: self.inputs.iter().collect(),
            inner: self.inner.iter().collect(),
            output: &self.output,
            after: self.after.as_ref(),
            on_sum: self.on_sum.as_ref(),
        }
    }

    fn convert<T, C: Convert<T, N, S>>(
        self,
        convert: &mut C,
        stage: usize,
    ) -> Result<BranchOf<C::Norm, C::Slot>, C::Error> {
        let before = self.before.map(|norm| convert.norm(norm)).transpose()?;
        let slots = self.inputs.into_iter().map(|slot| convert.slot(slot, Some(stage)));
        let inputs = slots.collect::<Result<_, _>>()?;
        let norms = self.inner.into_iter().map(|norm| convert.norm(norm));
        let inner = norms.collect::<Result<_, _>>()?;
        let output = convert.slot(self.output, Some(stage))?;
        let after = self.after.map(|norm| convert.norm(norm)).transpose()?;
        let on_sum = self.on_sum.map(|norm| convert.norm(norm)).transpose()?;
        Ok(BranchOf { before, inputs, inner, output, after, on_sum })
    }
}
