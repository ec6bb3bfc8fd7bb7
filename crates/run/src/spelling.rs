//! Suggestions of similar names.

/// Levenshtein distance of two words.
pub use strsim::levenshtein as distance;

/// Number of suggestions.
const NEAREST: usize = 3;

/// "nearest are a, b, c": the names with the smallest edit distance.
#[must_use]
pub fn nearest_names(name: &str, names: &[&str]) -> String {
    let mut ranked: Vec<(usize, &str)> = names
        .iter()
        // A substring is nearer than any edit.
        .map(|known| (if known.contains(name) { 0 } else { distance(name, known) }, *known))
        .collect();
    ranked.sort_unstable();
    let nearest: Vec<&str> = ranked.iter().take(NEAREST).map(|(_, name)| *name).collect();
    if nearest.is_empty() {
        "there are none".into()
    } else {
        format!("nearest are {}", nearest.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        assert_eq!(
            ["", "rotor", "motor", "rotors", "rot"].map(|word| distance("rotor", word)),
            [5, 0, 1, 1, 2]
        );
    }

    #[test]
    fn names_are_answered_with_the_nearest() {
        let names = ["layers.0.up.weight", "layers.0.down.weight", "embed.weight", "norm"];
        let said = nearest_names("layers.0.upp.weight", &names);
        assert!(said.starts_with("nearest are layers.0.up.weight, layers.0.down.weight"), "{said}");
        assert!(nearest_names("down", &names).starts_with("nearest are layers.0.down.weight"));
        assert_eq!(nearest_names("a", &[]), "there are none");
    }
}
