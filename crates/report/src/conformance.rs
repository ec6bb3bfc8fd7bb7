//! Requirements on HTML pages, for the tests of report functions.

/// Checks that all elements are closed in order and attributes are quoted; returns the names of the
/// elements. Supports only the subset of HTML that reports use.
///
/// # Panics
/// If the page is not well formed.
#[track_caller]
pub fn elements(page: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "br", "wbr"];
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "stray > in {:?}", &rest[..start]);
        let end = start + rest[start..].find('>').expect("an unclosed tag");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closing tag");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        assert!(!tag.contains('<'), "a tag in <{tag}>");
        let name = tag.split([' ', '\n', '/']).next().unwrap_or_default().to_owned();
        seen.push(name.clone());
        if name == "style" {
            let end = rest.find("</style>").expect("the end of the style");
            rest = &rest[end + "</style>".len()..];
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    seen
}

/// Checks that a page is well formed, and that each of its wide tables scrolls separately and has
/// heads of several lines.
///
/// # Panics
/// If a requirement is violated.
#[track_caller]
pub fn check_page(page: &str) {
    let names = elements(page);
    let tables = names.iter().filter(|name| *name == "table").count();
    let regions = page.matches("tabindex=\"0\">\n<table").count();
    assert!(tables > 0 && tables == regions, "{tables} tables in {regions} regions");
    let (_, style) = page.split_once("<style>").expect("a style");
    let (style, _) = style.split_once("</style>").expect("the end of the style");
    // The selectors and their rules, with any text between.
    for (selector, rule) in [
        (".scroll{", "overflow:auto"),
        (".scroll{", "max-width:calc(100vw"),
        ("thead th{", "white-space:normal"),
        ("thead th{", "position:sticky"),
        (".many{", "font-size"),
    ] {
        let mut rules = style.split('\n').filter(|line| line.starts_with(selector));
        assert!(rules.any(|line| line.contains(rule)), "{selector}{rule} is not in {style}");
    }
}
