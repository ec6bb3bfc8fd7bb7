//! Words of the little world. No word is in two lists with different meanings, and no name is also
//! a common word of a story, so names are unambiguous.

use super::grammar::Lexicon;

/// Names of girls and women.
pub(super) const GIRLS: [&str; 80] = [
    "Ada", "Alma", "Amy", "Anna", "Asta", "Beth", "Cora", "Dana", "Dora", "Edna", "Ella", "Elsa",
    "Emma", "Erin", "Etta", "Eva", "Fay", "Gina", "Gwen", "Ida", "Ines", "Iris", "Isla", "Ivy",
    "Jane", "Jill", "Joan", "Judy", "Kara", "Kate", "Kira", "Lara", "Laura", "Lea", "Lena", "Lily",
    "Lisa", "Lola", "Lucy", "Luna", "Mabel", "Mara", "Maria", "Marta", "Maud", "Maya", "Mila",
    "Mina", "Molly", "Mona", "Nadia", "Nancy", "Nell", "Nina", "Nora", "Olga", "Paula", "Petra",
    "Polly", "Rita", "Rosa", "Ruby", "Ruth", "Sally", "Sara", "Selma", "Susan", "Tara", "Tess",
    "Thea", "Tilda", "Tina", "Una", "Vera", "Viola", "Wanda", "Wilma", "Yara", "Zelda", "Zoe",
];

/// Names of boys and men.
pub(super) const BOYS: [&str; 80] = [
    "Abel", "Adam", "Alan", "Alec", "Alvin", "Amos", "Andy", "Anton", "Arlo", "Axel", "Ben",
    "Boris", "Bruno", "Caleb", "Carl", "Clive", "Colin", "Cyril", "David", "Dirk", "Edgar",
    "Edwin", "Eli", "Emil", "Eric", "Ewan", "Felix", "Finn", "Floyd", "Fred", "Gary", "Gus",
    "Hans", "Harry", "Henry", "Homer", "Hugo", "Ian", "Igor", "Isaac", "Ivan", "Jack", "Jacob",
    "James", "Jim", "Joel", "John", "Jonas", "Karl", "Keith", "Kurt", "Lars", "Leo", "Levi",
    "Liam", "Linus", "Louis", "Luke", "Max", "Milo", "Ned", "Neil", "Nils", "Noah", "Olaf",
    "Oscar", "Otto", "Owen", "Paul", "Percy", "Peter", "Ralph", "Robin", "Roger", "Rufus", "Sam",
    "Simon", "Sven", "Theo", "Toby",
];

/// Towns, in which people live and objects are kept.
pub(super) const TOWNS: [&str; 40] = [
    "Ashford", "Ashport", "Ashton", "Ashdale", "Oakford", "Oakport", "Oakton", "Oakdale",
    "Sandford", "Sandport", "Sandton", "Sanddale", "Foxford", "Foxport", "Foxton", "Foxdale",
    "Saltford", "Saltport", "Salton", "Saltdale", "Windford", "Windport", "Winton", "Windale",
    "Crowford", "Crowport", "Crowton", "Crowdale", "Millford", "Millport", "Milton", "Milldale",
    "Redford", "Redport", "Redton", "Reddale", "Longford", "Longport", "Longton", "Longdale",
];

/// Rivers on which towns lie.
pub(super) const RIVERS: [&str; 16] = [
    "Alder", "Brent", "Cam", "Dove", "Esk", "Frome", "Gade", "Irwell", "Kennet", "Lune", "Medway",
    "Nidd", "Orwell", "Severn", "Tamar", "Yare",
];

/// Products that towns are known for.
pub(super) const WARES: [&str; 20] = [
    "bells", "boats", "boots", "candles", "carpets", "clocks", "combs", "drums", "flutes",
    "gloves", "hats", "kites", "knives", "lamps", "mirrors", "pots", "ropes", "rugs", "spoons",
    "wagons",
];

/// Days of the week.
pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Professions.
pub(super) const JOBS: [&str; 24] = [
    "baker",
    "builder",
    "carpenter",
    "cook",
    "doctor",
    "driver",
    "farmer",
    "fisher",
    "gardener",
    "guard",
    "hunter",
    "miller",
    "nurse",
    "painter",
    "potter",
    "printer",
    "sailor",
    "shepherd",
    "singer",
    "smith",
    "tailor",
    "teacher",
    "weaver",
    "writer",
];

/// Animals to keep or meet.
pub(super) const ANIMALS: [&str; 20] = [
    "cat", "crow", "dog", "donkey", "duck", "frog", "goat", "goose", "hedgehog", "hen", "lamb",
    "mouse", "parrot", "pig", "pony", "rabbit", "snake", "squirrel", "toad", "turtle",
];

/// Foods.
pub(super) const FOODS: [&str; 20] = [
    "beans", "bread", "butter", "carrots", "cheese", "fish", "grapes", "honey", "lemons", "melons",
    "milk", "noodles", "peas", "pie", "plums", "porridge", "rice", "salad", "soup", "toast",
];

/// Colours.
pub(super) const COLOURS: [&str; 12] = [
    "black", "blue", "brown", "gold", "green", "grey", "pink", "purple", "red", "silver", "white",
    "yellow",
];

/// Materials of things.
pub(super) const MATERIALS: [&str; 12] = [
    "amber", "bone", "brass", "clay", "copper", "glass", "iron", "ivory", "marble", "paper",
    "stone", "tin",
];

/// First words of the names of objects.
pub(super) const THING_KINDS: [&str; 8] =
    ["ancient", "broken", "crooked", "hidden", "magic", "royal", "sacred", "secret"];

/// Last words of the names of objects.
pub(super) const THING_NOUNS: [&str; 6] = ["crown", "harp", "ring", "shield", "statue", "sword"];

/// Word lists of the plots.
pub(super) fn lexicon() -> Lexicon {
    let people: Vec<&'static str> = GIRLS.iter().chain(&BOYS).copied().collect();
    Lexicon::default()
        .with("person", &people)
        .with_female(&GIRLS)
        .with("colour", &COLOURS)
        .with("animal", &ANIMALS)
        .with("number", &["2", "3", "4", "5", "6", "7", "8", "9"])
        .with("weather", &["warm", "cold", "sunny", "rainy", "windy", "quiet"])
        .with("time", &["morning", "evening", "afternoon", "day"])
        .with(
            "place",
            &[
                "lake", "forest", "barn", "mill", "bridge", "market", "school", "garden", "hill",
                "beach", "river", "church", "park", "farm", "castle", "tower",
            ],
        )
        .with(
            "toy",
            &[
                "ball", "kite", "book", "hat", "lamp", "drum", "doll", "cup", "bell", "rope",
                "clock", "scarf", "map", "flute", "bucket", "mirror",
            ],
        )
        .with(
            "plural",
            &["stones", "shells", "coins", "feathers", "nuts", "stamps", "buttons", "cards"],
        )
        .with(
            "spot",
            &[
                "bench", "wall", "gate", "tree", "stairs", "table", "well", "fence", "bush",
                "cart", "rock", "log",
            ],
        )
        .with("dish", &["cake", "stew", "jam", "pudding", "pancakes", "dumplings"])
        .with("goods", &["flour", "sugar", "salt", "eggs", "cream", "oil", "nuts", "yeast"])
        .with(
            "treat",
            &["apples", "cookies", "cherries", "candy", "berries", "pears", "figs", "buns"],
        )
}
