//! Data of depth experiments: rows or sequences with balanced classes.

use crate::{CollapseError, Source};
use linwright_tensor::{Mat, RngKey};

/// Labelled inputs of a reference network.
#[derive(Clone, Debug)]
pub struct DepthData {
    /// (examples * tokens, d)
    pub x: Mat<f64>,
    /// Class of each example.
    pub labels: Vec<u32>,
    /// Classes.
    pub classes: usize,
    /// Tokens of an example.
    pub tokens: usize,
}

/// Sizes of generated data.
#[derive(Clone, Copy, Debug)]
pub struct DepthSizes {
    /// Classes.
    pub classes: usize,
    /// Examples of each class.
    pub per_class: usize,
    /// Numbers of a token.
    pub width: usize,
    /// Tokens of an example.
    pub tokens: usize,
}

impl DepthData {
    /// Classes with normal centres and `noise` times normal noise; in sequences the last token is
    /// pure noise, so that the context determines the class.
    #[must_use]
    pub fn generated(sizes: DepthSizes, noise: f64, key: RngKey) -> Self {
        let DepthSizes { classes, per_class, width, tokens } = sizes;
        let normals = |name: &str, rows: usize, scale: f64| -> Mat<f64> {
            let numbers = key.fold(name).stream().normals(rows * width, scale);
            Mat::from_vec(rows, width, numbers)
        };
        let centres = normals("centres", classes, 1.0);
        let mut x = normals("noise", classes * per_class * tokens, noise);
        let labels: Vec<u32> = (0..classes * per_class).map(|i| (i / per_class) as u32).collect();
        for (example, label) in labels.iter().enumerate() {
            for token in 0..if tokens == 1 { 1 } else { tokens - 1 } {
                let row = x.row_mut(example * tokens + token);
                let centre = centres.row(*label as usize);
                row.iter_mut().zip(centre).for_each(|(x, centre)| *x += centre);
            }
        }
        Self { x, labels, classes, tokens }
    }

    /// Rows of a source, each divided into tokens.
    ///
    /// # Errors
    /// [`CollapseError::Shape`] if features are not a multiple of the tokens, and errors of the
    /// source.
    pub fn of_source(
        source: &dyn Source,
        classes: usize,
        tokens: usize,
    ) -> Result<Self, CollapseError> {
        let (rows, d) = (source.rows(), source.features());
        if tokens == 0 || d % tokens != 0 {
            return Err(CollapseError::Shape {
                what: "features".into(),
                found: vec![rows, d],
                expected: format!("columns for {tokens} tokens of one width"),
            });
        }
        let x = source.block(0, rows)?;
        crate::sums::check_finite("features", x.view(), 0)?;
        let x = Mat::from_vec(rows * tokens, d / tokens, x.into_vec());
        Ok(Self { x, labels: source.labels().to_vec(), classes, tokens })
    }

    /// Whether all classes have equally many examples, as the bound of GUFM needs.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let mut counts = vec![0; self.classes];
        self.labels.iter().for_each(|label| counts[*label as usize] += 1);
        counts.iter().all(|count| *count == counts[0])
    }
}
