//! Images as examples of a network.

use crate::recipe::ImageCalibration;
use linwright_data::images::{Images, Normalisation};
use linwright_nets::Batch;
use linwright_ops::Examples;
use linwright_run::sha256_hex;
use linwright_tensor::{Mat, RngKey};
use std::sync::Arc;

/// Images in a drawn order, in batches that are made as they are needed; the last ones are for
/// validation.
pub(super) struct Shuffled {
    images: Arc<Images>,
    order: Vec<usize>,
    /// Images for training.
    training: usize,
    batch: usize,
}

impl Shuffled {
    pub(super) fn new(images: &Arc<Images>, source: &ImageCalibration, key: RngKey) -> Self {
        let mut order: Vec<usize> = (0..images.len()).collect();
        key.stream().shuffle(&mut order);
        let training = order.len() - source.validation_of(order.len());
        Self { images: Arc::clone(images), order, training, batch: source.batch }
    }

    /// The images of a batch.
    fn chosen(&self, index: usize) -> &[usize] {
        let (training, validation) = self.order.split_at(self.training);
        let first = self.training_batches();
        let (part, index) =
            if index < first { (training, index) } else { (validation, index - first) };
        &part[index * self.batch..((index + 1) * self.batch).min(part.len())]
    }

    fn places(&self) -> usize {
        let shape = self.images.shape();
        shape.height * shape.width
    }
}

impl Examples<Batch> for Shuffled {
    fn batches(&self) -> usize {
        let validation = self.order.len() - self.training;
        self.training_batches() + validation.div_ceil(self.batch)
    }

    fn training_batches(&self) -> usize {
        self.training.div_ceil(self.batch)
    }

    fn batch(&self, index: usize) -> Batch {
        batch(&self.images, self.chosen(index))
    }

    fn rows(&self, index: usize) -> usize {
        self.chosen(index).len() * self.places()
    }

    fn identity(&self) -> String {
        let Self { images, order, training, batch } = self;
        let content = sha256_hex(format!("{} {order:?}", images.sha256()).as_bytes());
        format!("images {content} of {}, {training} for training, by {batch}", images.shape())
    }
}

/// Some images as a batch: a row for each pixel, bytes divided by 255. The network normalises.
pub(super) fn batch(images: &Images, indices: &[usize]) -> Batch {
    let shape = images.shape();
    let mut numbers = vec![0.0; indices.len() * shape.numbers()];
    let plain = Normalisation::none(shape.channels);
    images.rows(indices, &plain, &mut numbers).expect("pixels are finite, and divided by one");
    let rows = Mat::from_vec(indices.len() * shape.height * shape.width, shape.channels, numbers);
    Batch { rows, examples: indices.len() }
}
