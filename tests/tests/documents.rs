//! Documents that list what the code has: they must list all of it.

// What must not happen ends the test with its reason.
#![allow(clippy::expect_used)]

/// The public fields of a struct, from its source.
fn fields<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let start = source.find(&format!("pub struct {name} {{")).expect("the struct is there");
    let body = source[start..].split("\n}").next().unwrap_or_default();
    body.lines().skip(1).filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect()
}

#[test]
fn every_parameter_is_in_the_configuration_document() {
    let source = include_str!("../../crates/strandline-proto/src/config.rs");
    let document = include_str!("../../docs/configuration.md");
    for name in ["AssociationConfig", "EndpointConfig"] {
        let fields = fields(source, name);
        assert!(fields.len() >= 10, "{name} has {fields:?}");
        for field in fields {
            assert!(
                document.contains(&format!("| `{field}` |")),
                "docs/configuration.md lacks {name}::{field}"
            );
        }
    }
}
