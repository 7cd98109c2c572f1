use super::*;

fn offered(more: &str) -> Vec<Algorithm> {
    let table: Table = toml::from_str(&format!("realm = \"example.com\"\n{more}")).unwrap();
    let mut errors = ConfigErrors::default();
    let checked = check(table, Some(None), &mut Files::of_disk(), &mut errors);
    errors.finish().unwrap();
    checked.unwrap().algorithms
}

#[test]
fn md5_alone_is_offered_by_default() {
    assert_eq!(offered("subscribers = \"sqlite:/nowhere.db\""), [Algorithm::Md5]);
    let both = offered("subscribers = \"sqlite:/nowhere.db\"\nalgorithms = [\"SHA-256\", \"MD5\"]");
    assert_eq!(both, [Algorithm::Sha256, Algorithm::Md5]);
}

#[test]
fn users_with_other_hashes_are_offered_those() {
    let file = std::env::temp_dir().join(format!("strandline-offered-{}", std::process::id()));
    let (md5, sha) = ("0".repeat(32), "0".repeat(64));
    let of = |text: String| {
        std::fs::write(&file, text).unwrap();
        offered(&format!("users = {file:?}"))
    };
    assert_eq!(of(format!("a:password:x\nb:MD5:{md5}\nb:SHA-256:{sha}\n")), [Algorithm::Md5]);
    let all = of(format!("a:password:x\nb:SHA-256:{sha}\nc@example.net:SHA-512-256:{sha}\n"));
    assert!(all.starts_with(&[Algorithm::Md5]) && all.len() == 3, "{all:?}");
    std::fs::remove_file(&file).unwrap();
}
