//! Selection of slots of a plan.

use crate::intervention::Lname;

/// A set of slots, which may have the paper's names.
pub type SlotSet = linwright_ops::SlotSet<Lname>;

#[cfg(test)]
mod tests {
    use linwright_data::sets::name_matches;
    use linwright_ops::NameFilter;

    #[test]
    fn globs_of_slots_and_of_tasks_say_the_same_but_for_brackets() {
        let name = "layers.3.mlp.up";
        let same = ["*", "*.mlp.*", "layers.?.mlp.up", "layers.??.mlp.up", "mlp", "", "*.up", "*?"];
        for pattern in same {
            let filter = NameFilter::parse(pattern).expect("a glob");
            assert_eq!(filter.matches(name), name_matches(pattern, name), "{pattern}");
        }
        let brackets = "layers.[0-3].mlp.up";
        let filter = NameFilter::parse(brackets).expect("a glob");
        assert!(name_matches(brackets, name) && !filter.matches(name) && filter.matches(brackets));
    }
}
