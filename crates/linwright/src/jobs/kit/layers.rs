//! Lists of layers.

use super::JobError;
use linwright_run::shown;

/// Largest range of layers.
const MAX_RANGE: usize = 100_000;

/// Layers of an option: `26`, `27-17`, `0,3` and their combinations, in the order given.
///
/// # Errors
/// [`JobError`] if the text is no such list, or names a layer twice.
pub fn parse_layers(option: &str, text: &str) -> Result<Vec<usize>, JobError> {
    let wrong = |reason: &str| JobError::new(format!("--{option} \"{}\": {reason}", shown(text)));
    let number = |text: &str| {
        let expected = "expected layers from zero such as 26, 27-17 or 0,3";
        text.trim().parse::<usize>().map_err(|_| wrong(expected))
    };
    let mut layers = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => layers.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from.abs_diff(to) > MAX_RANGE {
                    return Err(wrong("a range of more layers than any model has"));
                }
                match from <= to {
                    true => layers.extend(from..=to),
                    false => layers.extend((to..=from).rev()),
                }
            }
        }
    }
    let mut sorted = layers.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(wrong(&format!("layer {} is named twice", pair[0]))),
        None => Ok(layers),
    }
}

/// Sets of layers of an option, divided by slashes: `4/4,5/4-6`.
///
/// # Errors
/// [`JobError`] as [`parse_layers`], and for one set twice.
pub fn parse_layer_sets(option: &str, text: &str) -> Result<Vec<Vec<usize>>, JobError> {
    let sets = text.split('/').map(|set| parse_layers(option, set));
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    match (1..sets.len()).find(|at| sets[..*at].contains(&sets[*at])) {
        Some(at) => {
            let set = sets[at].iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let message = format!("--{option} \"{}\": the set {set} is named twice", shown(text));
            Err(JobError::new(message))
        }
        None => Ok(sets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_layers_are_divided_by_slashes_and_each_is_there_once() {
        let sets = parse_layer_sets("layers", "4/4,5/4-6").unwrap();
        assert_eq!(sets, [vec![4], vec![4, 5], vec![4, 5, 6]]);
        for (wrong, word) in
            [("4/4-5/4,5", "the set 4,5 is named twice"), ("4/", "expected layers")]
        {
            let error = parse_layer_sets("layers", wrong).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn layers_are_numbers_and_ranges_in_both_directions() {
        for (text, want) in [
            ("26", &[26][..]),
            ("5-3,0", &[5, 4, 3, 0]),
            ("1-3", &[1, 2, 3]),
            ("3,5,0-2", &[3, 5, 0, 1, 2]),
        ] {
            assert_eq!(parse_layers("lnum", text).unwrap(), want);
        }
        for wrong in ["", "a", "1-", "3,3", "2-1,1", "0-2,1", "-1", "-2", "0-99999999"] {
            let error = parse_layers("layers", wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--layers \"{wrong}\"")), "{error}");
        }
    }
}
