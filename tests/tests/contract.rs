//! `docs/contract.md` says which test shows which rule. The tests that it names must exist.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_contract_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let contract = std::fs::read_to_string(root.join("docs/contract.md")).expect("the contract is there");
    let named: BTreeSet<&str> = contract.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)).collect();
    assert!(named.len() > 100, "only {} tests are named", named.len());

    let mut known = BTreeSet::new();
    collect_names(&root, &mut known);
    let missing: Vec<_> = named.into_iter().filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/contract.md names tests that do not exist: {missing:#?}");
}

/// A sentence in snake case.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 2 && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// Collects the functions of all sources, and the cases of the conformance suite.
fn collect_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            collect_names(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).expect("a source file");
            names.extend(source.lines().filter_map(defined_name).map(str::to_owned));
        }
    }
}

/// What a line defines: `fn name(`, or `name = "about"` and `name (slow) = "about"` in a list of cases.
fn defined_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    match line.strip_prefix("fn ") {
        Some(rest) => rest.split(['(', '<']).next(),
        None => line.split_once(" = \"").map(|(name, _)| name.trim_end_matches(" (slow)")),
    }
}
