//! The maps of all chosen layers of a network.

use crate::layer_map::Side;
use crate::{AttributeError, CompressorKey, CompressorSpec, LayerMap, LayerShape, Learned};
use linwright_ops::{InputId, LinearSlot, Network, SiteId};
use std::collections::BTreeMap;
use std::ops::Range;

/// One chosen layer.
#[derive(Debug)]
pub struct MappedLayer {
    /// Its name.
    pub site: SiteId,
    /// Its map.
    pub map: LayerMap,
    /// Range of its numbers in a row of compressed gradients.
    pub columns: Range<usize>,
    /// The group of layers that read the same input, and the index among them.
    pub(crate) group: usize,
    pub(crate) member: usize,
}

/// Layers that read the same input, which is reduced once.
#[derive(Debug)]
pub(crate) struct InputGroup {
    /// The layer at which the input is captured.
    pub(crate) leader: SiteId,
    /// Layers, as indices.
    pub(crate) layers: Vec<usize>,
    /// Columns of the input selected by at least one layer, ascending: gathered once for the group.
    pub(crate) union: Vec<u32>,
    /// For each layer the indices of its columns in the union; none for a layer with another map.
    pub(crate) places: Vec<Option<Vec<u32>>>,
}

/// The maps of all chosen layers of a network. A compressed gradient is one row: the numbers of the
/// first layer, then those of the second.
#[derive(Debug)]
pub struct GradientMap {
    layers: Vec<MappedLayer>,
    groups: Vec<InputGroup>,
    by_site: BTreeMap<SiteId, usize>,
    size: usize,
    left_out: LeftOut,
}

/// Parameters without gradients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Linear layers that are not selected.
    pub layers: Vec<SiteId>,
    /// Parameters outside linear layers: embeddings, norms, but not biases of selected layers.
    pub other_parameters: u64,
    /// All parameters of the network.
    pub parameters: u64,
    /// Parameters with gradients.
    pub seen_parameters: u64,
}

impl LeftOut {
    /// A line for the user.
    #[must_use]
    pub fn summary(&self) -> String {
        let Self { layers, other_parameters, parameters, seen_parameters } = self;
        let share = 100.0 * *seen_parameters as f64 / (*parameters).max(1) as f64;
        format!(
            "gradients of {seen_parameters} of {parameters} parameters ({share:.1} %); left out: {} linear layers, and {other_parameters} parameters of embeddings, norms and other layers",
            layers.len()
        )
    }
}

/// Extents of the gradient of a slot.
#[must_use]
pub fn shape_of(slot: &LinearSlot) -> LayerShape {
    let shape = slot.shape();
    LayerShape { out: shape.out, inp: shape.inp, bias: slot.bias().is_some() }
}

impl GradientMap {
    /// Builds the maps of the slots for which `chosen` holds, from random numbers of a key and
    /// learned indices or directions.
    ///
    /// # Errors
    /// [`AttributeError::Layers`] if no slot is chosen, and those of
    /// [`CompressorSpec::build`].
    pub fn build<N: Network>(
        network: &N,
        chosen: &dyn Fn(&LinearSlot) -> bool,
        spec: &CompressorSpec,
        key: CompressorKey,
        learned: &BTreeMap<SiteId, Learned>,
    ) -> Result<Self, AttributeError> {
        let build = |slot: &LinearSlot| {
            let site = slot.id();
            spec.build((&site.0, shape_of(slot)), key, learned.get(site))
        };
        Self::of(network, chosen, &build)
    }

    /// The maps returned by `build`, for the slots for which `chosen` holds.
    ///
    /// # Errors
    /// [`AttributeError::Layers`] if no slot is chosen, and those of `build`.
    pub fn of<N: Network>(
        network: &N,
        chosen: &dyn Fn(&LinearSlot) -> bool,
        build: &dyn Fn(&LinearSlot) -> Result<LayerMap, AttributeError>,
    ) -> Result<Self, AttributeError> {
        let (mut layers, mut size) = (Vec::new(), 0);
        let (mut groups, mut by_input) = (Vec::<InputGroup>::new(), BTreeMap::new());
        let mut left_out = LeftOut { parameters: network.parameters(), ..LeftOut::default() };
        let slots = network.slots();
        for slot in &slots {
            if !chosen(slot) {
                left_out.layers.push(slot.id().clone());
                continue;
            }
            let map = build(slot)?;
            let columns = size..size + map.size();
            size = columns.end;
            left_out.seen_parameters += map.shape().numbers() as u64;
            let reads: &InputId = slot.reads();
            let group = *by_input.entry(reads.clone()).or_insert_with(|| {
                groups.push(InputGroup::led_by(slot.id().clone()));
                groups.len() - 1
            });
            let member = groups[group].layers.len();
            groups[group].layers.push(layers.len());
            layers.push(MappedLayer { site: slot.id().clone(), map, columns, group, member });
        }
        if layers.is_empty() {
            let names: Vec<&str> = slots.iter().take(3).map(|slot| slot.id().0.as_str()).collect();
            let reason = match names.is_empty() {
                true => "the network has no linear layers".into(),
                false => format!("no layer is chosen; there are {}, ..", names.join(", ")),
            };
            return Err(AttributeError::Layers { reason });
        }
        groups.iter_mut().for_each(|group| group.unite(&layers));
        let biases = layers.iter().filter(|layer| layer.map.shape().bias);
        let biases: usize = biases.map(|layer| layer.map.shape().out).sum();
        left_out.other_parameters = network.other_parameters().saturating_sub(biases as u64);
        let by_site =
            layers.iter().enumerate().map(|(index, layer)| (layer.site.clone(), index)).collect();
        Ok(Self { layers, groups, by_site, size, left_out })
    }

    /// Every chosen layer, in the order of the network.
    #[must_use]
    pub fn layers(&self) -> &[MappedLayer] {
        &self.layers
    }

    /// Numbers of a compressed gradient.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The parameters without gradients.
    #[must_use]
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Bytes of all maps in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.map.bytes()).sum()
    }

    /// Bytes of reduced inputs that are kept for each row of a batch.
    #[must_use]
    pub fn kept_bytes_per_row(&self) -> u64 {
        let of = |group: &InputGroup| {
            let own = group.layers.iter().zip(&group.places);
            let own = own.filter(|(_, places)| places.is_none());
            let own: usize = own.map(|(&layer, _)| self.layers[layer].map.kept()).sum();
            4 * (group.union.len() + own) as u64
        };
        self.groups.iter().map(of).sum()
    }

    pub(crate) fn groups(&self) -> &[InputGroup] {
        &self.groups
    }

    /// The index of a chosen layer.
    pub(crate) fn index(&self, site: &SiteId) -> Option<usize> {
        self.by_site.get(site).copied()
    }
}

impl InputGroup {
    fn led_by(leader: SiteId) -> Self {
        Self { leader, layers: Vec::new(), union: Vec::new(), places: Vec::new() }
    }

    /// Finds the columns selected by its layers.
    fn unite(&mut self, layers: &[MappedLayer]) {
        let picked = |layer: &usize| match layers[*layer].map.inp_side() {
            Side::Columns(columns) => Some(columns.clone()),
            Side::Map(_) => None,
        };
        let picked: Vec<Option<Vec<u32>>> = self.layers.iter().map(picked).collect();
        self.union = picked.iter().flatten().flatten().copied().collect();
        self.union.sort_unstable();
        self.union.dedup();
        let place = |column: u32| self.union.partition_point(|&c| c < column) as u32;
        let places = picked.into_iter();
        self.places = places
            .map(|columns| columns.map(|columns| columns.into_iter().map(place).collect()))
            .collect();
    }
}
