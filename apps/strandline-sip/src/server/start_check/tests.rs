use super::*;

#[test]
fn stores_that_are_no_regular_files_are_refused() {
    for (path, kind) in [("/dev/zero", "a device"), ("/dev/null", "a device"), ("/", "a directory")] {
        let flaw = store_flaw(Path::new(path)).unwrap();
        assert!(flaw.is_error && flaw.message.contains(&format!("{path} is {kind}")), "{flaw}");
    }
    let path = std::env::temp_dir().join(format!("strandline-store-{}", std::process::id()));
    assert_eq!(store_flaw(&path), None);
    std::fs::write(&path, "").unwrap();
    assert_eq!(store_flaw(&path), None);
    std::fs::remove_file(&path).unwrap();
}
