//! The change of basis between multivectors and sheets: signed gathers and Walsh-Hadamard
//! transforms.

use super::basis::{Sheet, SpinBasis, Strand};
use super::chunk::Chunk;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::Scalar;
use crate::kernels::gemm::Write;
use crate::kernels::hadamard;
use crate::kernels::instructions::vectorised;

impl SpinBasis {
    /// Converts the multivectors of a chunk of `x` to sheets.
    ///
    /// Entry (i, j) of plane c of sheet s of vector b is
    /// `out[(((s * size + i) * planes + c) * columns + j) * width + b]`.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn represent<T: Scalar>(&self, x: &[T], chunk: Chunk, out: &mut [T]) {
        chunk.assert_fits(self, x.len(), out.len());
        let len = self.sheet_len() * chunk.width;
        for (sheet, out) in self.sheets.iter().zip(out.chunks_exact_mut(len)) {
            #[cfg(target_arch = "x86_64")]
            if x86::represent(self, sheet, x, chunk, out) {
                continue;
            }
            represent_sheet(self, sheet, x, chunk, out);
        }
    }

    /// Writes the multivectors of sheets to a chunk of `y`, or adds them; overwrites `sheets`.
    ///
    /// This is the transpose of [`Self::represent`] times the squared norm of a blade, which is the
    /// inverse.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn recover<T: Scalar>(&self, sheets: &mut [T], chunk: Chunk, y: &mut [T], write: Write) {
        chunk.assert_fits(self, y.len(), sheets.len());
        let len = self.sheet_len() * chunk.width;
        for (sheet, data) in self.sheets.iter().zip(sheets.chunks_exact_mut(len)) {
            let write = if sheet.repeats { Write::Add } else { write };
            #[cfg(target_arch = "x86_64")]
            if x86::recover(self, sheet, data, chunk, y, write) {
                continue;
            }
            recover_sheet(self, sheet, data, chunk, y, write);
        }
    }
}

vectorised! {
    /// One sheet of [`SpinBasis::represent`].
    fn represent_sheet<const FUSED: bool, T: Scalar>(
        basis: &SpinBasis,
        sheet: &Sheet,
        x: &[T],
        chunk: Chunk,
        out: &mut [T],
    ) {
        let (width, columns) = (chunk.width, basis.columns);
        let sources = sheet.sources.chunks_exact(columns * sheet.blades);
        for (strand, sources) in basis.strands().zip(sources) {
            for (z, sources) in sources.chunks_exact(sheet.blades).enumerate() {
                let to = &mut out[strand.entry(z) * width..][..width];
                for (k, source) in sources.iter().enumerate() {
                    let from = &x[chunk.place(source.coordinate)..][..width];
                    let sign = T::from_f64(source.sign.into());
                    let pairs = to.iter_mut().zip(from);
                    if k == 0 {
                        pairs.for_each(|(to, &from)| *to = T::uncounted(|| sign * from));
                    } else {
                        pairs.for_each(|(to, &from)| *to += T::uncounted(|| sign * from));
                    }
                }
            }
            butterflies(strand, out, width, columns);
        }
    }
}

vectorised! {
    /// One sheet of [`SpinBasis::recover`].
    fn recover_sheet<const FUSED: bool, T: Scalar>(
        basis: &SpinBasis,
        sheet: &Sheet,
        data: &mut [T],
        chunk: Chunk,
        y: &mut [T],
        write: Write,
    ) {
        let (width, columns) = (chunk.width, basis.columns);
        let sources = sheet.sources.chunks_exact(columns * sheet.blades);
        for (strand, sources) in basis.strands().zip(sources) {
            butterflies(strand, data, width, columns);
            for (z, sources) in sources.chunks_exact(sheet.blades).enumerate() {
                let from = &data[strand.entry(z) * width..][..width];
                for source in sources {
                    let scale = T::from_f64(f64::from(source.sign) * basis.weight);
                    let to = &mut y[chunk.place(source.coordinate)..][..width];
                    let pairs = to.iter_mut().zip(from);
                    if write == Write::Set {
                        pairs.for_each(|(to, &from)| *to = T::uncounted(|| scale * from));
                    } else {
                        pairs.for_each(|(to, &from)| *to += T::uncounted(|| scale * from));
                    }
                }
            }
        }
    }
}

/// The Walsh-Hadamard transform over the entries of a strand.
#[inline(always)]
fn butterflies<T: Scalar>(strand: Strand, sheet: &mut [T], width: usize, columns: usize) {
    hadamard::scattered(sheet, width, columns, |j| strand.entry(j));
}

#[cfg(test)]
mod tests {
    use super::super::basis::BladeOrder;
    use super::*;
    use crate::RngKey;

    #[test]
    fn recover_undoes_represent_and_is_its_transpose_up_to_the_weight() {
        for n in 0..=14 {
            for order in [BladeOrder::Graded, BladeOrder::Binary] {
                let basis = SpinBasis::new(n, order);
                let mut stream = RngKey::new(n as u64).stream();
                let (d, width) = (basis.dimension(), 3);
                let chunk = Chunk { start: d / 3, features: d, width };
                let x: Vec<f64> = stream.normals(d * width, 1.0);
                let mut sheets = vec![0.0; d * width];
                basis.represent(&x, chunk, &mut sheets);
                let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
                let ratio = norm(&sheets) * basis.weight / norm(&x);
                assert!((ratio - 1.0).abs() < 1e-12, "n {n}: {ratio}");
                for (write, twice) in [(Write::Set, 1.0), (Write::Add, 2.0)] {
                    let mut y = x.clone();
                    basis.recover(&mut sheets.clone(), chunk, &mut y, write);
                    let equal = x.iter().zip(&y).all(|(a, b)| (twice * a - b).abs() < 1e-12);
                    assert!(equal, "n {n}: {x:?} came back as {y:?}");
                }
            }
        }
    }

    #[test]
    fn single_precision_equals_double_for_every_width() {
        for n in 0..=14 {
            let basis = SpinBasis::new(n, BladeOrder::Graded);
            for width in [1, 8, 16, 32, 48] {
                let features = basis.dimension() + 3;
                let chunk = Chunk { start: features - 2, features, width };
                let mut stream = RngKey::new(n as u64).stream();
                let x: Vec<f32> = stream.normals(features * width, 1.0);
                let wide: Vec<f64> = x.iter().map(|&v| v.into()).collect();
                let mut sheets = vec![7.0f32; basis.dimension() * width];
                let mut expected = vec![7.0; sheets.len()];
                basis.represent(&x, chunk, &mut sheets);
                basis.represent(&wide, chunk, &mut expected);
                close(&sheets, &expected, n);
                for write in [Write::Set, Write::Add] {
                    let (mut y, mut y_expected) = (x.clone(), wide.clone());
                    basis.recover(&mut sheets.clone(), chunk, &mut y, write);
                    basis.recover(&mut expected.clone(), chunk, &mut y_expected, write);
                    close(&y, &y_expected, n);
                }
            }
        }
    }

    fn close(found: &[f32], expected: &[f64], n: usize) {
        for (found, expected) in found.iter().zip(expected) {
            let gap = (f64::from(*found) - expected).abs();
            assert!(gap < 1e-4, "n {n}: {found} is not {expected}");
        }
    }
}
