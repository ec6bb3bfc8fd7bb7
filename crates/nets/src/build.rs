//! From descriptions to steps.

use crate::layers::{
    Activate, Affine, Attention, BatchNorm, Branch, Conv, Dropout, Flatten, Join, LayerNorm,
    Linear, Nonlinearity, Pool,
};
use crate::step::Step;
use crate::{Extent, LayerSpec, NetError};
use linwright_ops::{Dense, InputId, LinearSlot, Op, Place, SiteId, SlotRole};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::kernels::softmax_attention::AttentionShape;
use linwright_tensor::{Mat, Scalar};

/// Gives the numbers of a tensor of this name and shape.
pub(crate) type Source<'a, T> = dyn FnMut(&str, &[usize]) -> Result<Vec<T>, NetError> + 'a;

/// Builds the steps of a network whose description was checked.
pub(crate) struct Builder<'a, T: Scalar> {
    pub(crate) source: &'a mut Source<'a, T>,
    pub(crate) extent: Extent,
    pub(crate) steps: Vec<Box<dyn Step<T>>>,
    pub(crate) layers: usize,
}

impl<T: Scalar> Builder<'_, T> {
    pub(crate) fn layers(&mut self, layers: &[LayerSpec]) -> Result<(), NetError> {
        for (index, layer) in layers.iter().enumerate() {
            if let LayerSpec::Residual { layers } = layer {
                self.steps.push(Box::new(Branch));
                self.layers(layers)?;
                self.steps.push(Box::new(Join));
                continue;
            }
            let step = self.step(layer)?;
            self.layers += usize::from(!step.slots().is_empty());
            self.steps.push(step);
            self.extent = layer.output(self.extent, &layer.label("", index))?;
        }
        Ok(())
    }

    fn step(&mut self, layer: &LayerSpec) -> Result<Box<dyn Step<T>>, NetError> {
        let Extent { height, width, channels } = self.extent;
        let activate = |kind| Box::new(Activate(Nonlinearity::Kernel(kind)));
        let windows = |size, stride, padding| Patches { height, width, size, stride, padding };
        Ok(match layer {
            LayerSpec::Linear { name, out, bias } => {
                let role = SlotRole::new("linear", &[]);
                Box::new(Linear(self.slot(name, (name, role), &[*out, channels], *bias)?))
            }
            LayerSpec::Conv { name, out, kernel, stride, padding, bias } => {
                let shape = [*out, channels, *kernel, *kernel];
                let slot = self.slot(name, (name, SlotRole::new("conv", &[])), &shape, *bias)?;
                Box::new(Conv { slot, patches: windows(*kernel, *stride, *padding) })
            }
            LayerSpec::Relu => activate(Activation::Relu),
            LayerSpec::Gelu => activate(Activation::Gelu),
            LayerSpec::Silu => activate(Activation::Silu),
            LayerSpec::Tanh => Box::new(Activate(Nonlinearity::Tanh)),
            LayerSpec::Flatten => Box::new(Flatten { places: self.extent.places() }),
            LayerSpec::BatchNorm { name, eps, momentum } => Box::new(BatchNorm {
                affine: self.affine(name)?,
                mean: (self.source)(&format!("{name}.running_mean"), &[channels])?,
                variance: (self.source)(&format!("{name}.running_var"), &[channels])?,
                eps: *eps,
                momentum: *momentum,
            }),
            LayerSpec::LayerNorm { name, eps, affine } => {
                let affine = if *affine { Some(self.affine(name)?) } else { None };
                Box::new(LayerNorm { affine, eps: *eps })
            }
            LayerSpec::MaxPool { size, stride } | LayerSpec::MeanPool { size, stride } => {
                let max = matches!(layer, LayerSpec::MaxPool { .. });
                Box::new(Pool { windows: windows(*size, stride.unwrap_or(*size), 0), max })
            }
            LayerSpec::Attention { name, heads, causal, output, bias } => {
                let (places, shape) = (self.extent.places(), [channels, channels]);
                let mut slots = Vec::new();
                for role in ["query", "key", "value", "output"] {
                    let input =
                        if role == "output" { format!("{name}.mixed") } else { name.clone() };
                    if role != "output" || *output {
                        let id = format!("{name}.{role}");
                        let role = SlotRole::new(role, &[]);
                        slots.push(self.slot(&id, (&input, role), &shape, *bias)?);
                    }
                }
                let shape = AttentionShape { places, heads: *heads, causal: *causal };
                Box::new(Attention { slots, shape })
            }
            LayerSpec::Dropout { share } => Box::new(Dropout { share: *share }),
            LayerSpec::Residual { .. } => unreachable!("residual layers are flattened"),
        })
    }

    fn affine(&mut self, name: &str) -> Result<Affine<T>, NetError> {
        let channels = [self.extent.channels];
        let scale = (self.source)(&format!("{name}.weight"), &channels)?;
        let shift = (self.source)(&format!("{name}.bias"), &channels)?;
        Ok(Affine { name: name.into(), scale, shift })
    }

    fn slot(
        &mut self,
        id: &str,
        (input, role): (&str, SlotRole),
        shape: &[usize],
        bias: bool,
    ) -> Result<LinearSlot<T>, NetError> {
        let weight = (self.source)(&format!("{id}.weight"), shape)?;
        let bias = match bias {
            true => Some((self.source)(&format!("{id}.bias"), &shape[..1])?),
            false => None,
        };
        let place = Place {
            reads: InputId(format!("{input}.input")),
            role,
            layer: Some(self.layers),
            stage: Some(self.steps.len()),
        };
        let weight = Mat::from_vec(shape[0], shape[1..].iter().product(), weight);
        let op = Op::Linear(Box::new(Dense::new(weight)));
        Ok(LinearSlot::new(SiteId(id.into()), place, op, bias))
    }
}
