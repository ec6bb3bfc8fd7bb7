//! Layers and roles in tensor names of any architecture.

use std::cmp::Ordering;

/// The layer of a tensor: the first numeric part of its name, as in
/// `model.layers.12.mlp.up_proj.weight`.
#[must_use]
pub fn layer_of(name: &str) -> Option<usize> {
    name.split('.').find_map(number)
}

/// The name with `*` for every numeric part: the name pattern of a role.
#[must_use]
pub fn pattern_of(name: &str) -> String {
    let parts: Vec<&str> =
        name.split('.').map(|part| if number(part).is_some() { "*" } else { part }).collect();
    parts.join(".")
}

fn number(part: &str) -> Option<usize> {
    let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if digits { part.parse().ok() } else { None }
}

/// Natural order of names: layer 2 before layer 10.
#[must_use]
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (number(x), number(y)) {
                (Some(x), Some(y)) => x.cmp(&y),
                _ => x.cmp(y),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names() {
        let name = "model.layers.12.mlp.experts.7.w1.weight";
        assert_eq!(layer_of(name), Some(12));
        assert_eq!(pattern_of(name), "model.layers.*.mlp.experts.*.w1.weight");
        assert_eq!((layer_of("lm_head.weight"), layer_of("conv1.weight")), (None, None));
        assert_eq!(layer_of("h.99999999999999999999999.w"), None);
        assert_eq!(pattern_of("a..b"), "a..b");
    }

    #[test]
    fn names_are_ordered_by_number() {
        let mut names = ["h.10.a", "h.2.b", "h.2", "a", "h.2.a", "h.x.a", "h.02.a"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["a", "h.2", "h.02.a", "h.2.a", "h.2.b", "h.10.a", "h.x.a"]);
    }
}
