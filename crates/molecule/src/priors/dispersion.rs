//! Parameters of Grimme's dispersion correction D2.

/// Dispersion coefficients in J nm^6/mol and van der Waals radii in nm, from hydrogen to xenon.
/// Source: S. Grimme, J. Comput. Chem. 27, 1787 (2006), table 1.
#[rustfmt::skip]
const D2: [(f64, f64); 54] = [
    (0.14, 0.1001), (0.08, 0.1012), (1.61, 0.0825), (1.61, 0.1408), (3.13, 0.1485),
    (1.75, 0.1452), (1.23, 0.1397), (0.7, 0.1342), (0.75, 0.1287), (0.63, 0.1243),
    (5.71, 0.1144), (5.71, 0.1364), (10.79, 0.1639), (9.23, 0.1716), (7.84, 0.1705),
    (5.57, 0.1683), (5.07, 0.1639), (4.61, 0.1595), (10.8, 0.1485), (10.8, 0.1474),
    (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562),
    (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562), (10.8, 0.1562),
    (16.99, 0.165), (17.1, 0.1727), (16.37, 0.176), (12.64, 0.1771), (12.47, 0.1749),
    (12.01, 0.1727), (24.67, 0.1628), (24.67, 0.1606), (24.67, 0.1639), (24.67, 0.1639),
    (24.67, 0.1639), (24.67, 0.1639), (24.67, 0.1639), (24.67, 0.1639), (24.67, 0.1639),
    (24.67, 0.1639), (24.67, 0.1639), (24.67, 0.1639), (37.32, 0.1672), (38.71, 0.1804),
    (38.44, 0.1881), (31.74, 0.1892), (31.5, 0.1892), (29.99, 0.1881),
];

/// Joules in a mole of electron volts.
const MOLE: f64 = 96_485.332_123_310_02;

/// Coefficient in eV A^6 and radius in A of an atomic number; none beyond xenon.
pub(super) fn parameters(species: u8) -> Option<(f64, f64)> {
    let index = usize::from(species).checked_sub(1)?;
    D2.get(index).map(|(c6, radius)| (c6 * 1e6 / MOLE, radius * 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::constants;

    #[test]
    fn dispersion_parameters_are_those_of_the_reference() {
        let constants = constants();
        let value = |key: &str, z: usize| constants[key][z].as_f64().unwrap();
        for z in 1..=54 {
            let (c6, radius) = D2[z - 1];
            assert_eq!(c6, value("d2_C6_J_nm6_per_mol_index_is_Z", z), "{z}");
            assert!((radius - value("d2_R_nm_index_is_Z", z)).abs() < 1e-12, "{z}");
        }
        assert_eq!((parameters(0), parameters(55)), (None, None));
    }
}
