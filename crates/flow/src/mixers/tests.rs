use super::*;
use linwright_ops::conformance;

/// Channels of grey and coloured images after a squeeze, and small ones.
const CHANNELS: [usize; 6] = [1, 2, 3, 4, 8, 12];

/// Texts of all kinds and options.
const TEXTS: [&str; 14] = [
    "cd:1",
    "cd:2",
    "cd:3:raw",
    "cd:2:time",
    "cd:2:polar",
    "dense",
    "plu",
    "permutation",
    "householder",
    "householder:1",
    "exponential",
    "woodbury:1",
    "rotor",
    "butterfly",
];

#[test]
fn every_kind_conforms_to_the_laws_of_operators() {
    for kind in MIX_KINDS {
        assert!(TEXTS.iter().any(|text| text.split(':').next() == Some(kind.name)), "{kind:?}");
    }
    for text in TEXTS {
        let mut built = 0;
        for channels in CHANNELS {
            let spec = MixSpec::parse(text).unwrap();
            let key = RngKey::new(5).fold_index(channels as u64);
            match spec.build::<f64>(channels, key) {
                Ok(op) => {
                    assert!(op.map().invertible().is_some(), "{text}, {channels}");
                    conformance::check(&op).unwrap();
                    built += 1;
                }
                Err(error) => {
                    let named = ["rotor", "butterfly"].contains(&text);
                    assert!(named && error.to_string().contains("power of two"), "{error}");
                }
            }
        }
        assert!(built >= 3, "{text} was built {built} times");
    }
}

#[test]
fn orthogonal_kinds_keep_lengths() {
    let kinds = ["cd:2", "dense", "plu", "permutation", "householder", "exponential", "butterfly"];
    for text in kinds {
        let op = MixSpec::parse(text).unwrap().build::<f64>(8, RngKey::new(1)).unwrap();
        let w = op.to_dense().unwrap();
        for i in 0..8 {
            for j in 0..8 {
                let dot: f64 = (0..8).map(|k| w.at(i, k) * w.at(j, k)).sum();
                let unit = f64::from(u8::from(i == j));
                assert!((dot - unit).abs() < 1e-12, "{text}: {i}, {j}: {dot}");
            }
        }
    }
}

#[test]
fn diagonals_of_circulants_start_positive() {
    for text in ["cd:2", "cd:3:raw", "cd:2:time"] {
        let op = MixSpec::parse(text).unwrap().build::<f64>(8, RngKey::new(2)).unwrap();
        let signs = op.map().buffers().into_iter().filter(|b| b.name == "diagonal_signs");
        assert!(signs.flat_map(|b| b.values.to_vec()).all(|sign| sign == 0), "{text}");
        let free = op.map().params().into_iter().filter(|p| p.name == "diagonals");
        assert!(free.flat_map(|p| p.values.to_vec()).all(|d| d > 0.0), "{text}");
    }
}

#[test]
fn wrong_texts_are_told_with_all_forms() {
    let cases = [
        ("wavelet", "no kind \"wavelet\""),
        ("", "no kind"),
        ("cd:0", "not a number from 1 to 256"),
        ("cd:2:complex", "not one of polar, raw and time"),
        ("cd:2:raw:x", "one option too many"),
        ("dense:3", "one option too many"),
        ("householder:9", "not a number from 1 to 8"),
        ("woodbury:x", "not a number from 1 to 8"),
        ("butterfly:free", "not orthogonal"),
    ];
    for (text, said) in cases {
        let built = MixSpec::parse(text).and_then(|spec| spec.build::<f32>(8, RngKey::new(0)));
        let error = built.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("householder[:R]"), "{text}: {error}");
    }
}

/// A singular operator of every kind that can be one is an error that names the part.
#[test]
fn singular_factors_are_named() {
    let cases = [
        ("cd:2:raw", "d", 3, 0.0),
        ("cd:2:time", "d", 1, f64::NAN),
        ("dense", "weight", 0, f64::NAN),
        ("plu", "log_s", 2, f64::NEG_INFINITY),
        ("exponential", "skew", 4, f64::INFINITY),
        ("woodbury:2", "d", 0, 0.0),
    ];
    for (text, name, index, value) in cases {
        let mut op = MixSpec::parse(text).unwrap().build::<f64>(8, RngKey::new(1)).unwrap();
        let mut params = op.map_mut().params_mut();
        let param = params.iter_mut().find(|param| param.name.starts_with(name)).unwrap();
        param.values[index] = value;
        let error = op.map().invertible().unwrap().log_abs_det().unwrap_err();
        assert!(matches!(error, OpError::Singular { .. }), "{text}: {error}");
        assert!(op.map().invertible().unwrap().inverse_dense().is_err(), "{text}");
    }
    let mut op = MixSpec::parse("householder").unwrap().build::<f64>(4, RngKey::new(1)).unwrap();
    op.map_mut().params_mut()[0].values[4..8].fill(0.0);
    let error = op.map().invertible().unwrap().log_abs_det().unwrap_err().to_string();
    assert!(error.contains("squared norms[1] is 0"), "{error}");
}
