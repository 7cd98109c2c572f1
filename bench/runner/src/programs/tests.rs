use super::*;

#[test]
fn quiet_workspace_has_its_members_alone() {
    let manifest = quiet_manifest(include_str!("../../../references/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let workspace = manifest["workspace"].as_table().unwrap();
    assert_eq!(workspace["members"], vec!["common".into(), toml::Value::from("dcsctp-stream")].into());
    assert_eq!(workspace["dependencies"]["dcsctp"]["path"].as_str(), Some("dcsctp"));
    assert!(manifest["profile"]["release"].is_table());
}
