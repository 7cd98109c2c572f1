use super::*;

#[test]
fn md5_is_offered_first() {
    let table: Table =
        toml::from_str("realm = \"example.com\"\nsubscribers = \"sqlite:/nowhere.db\"").unwrap();
    let auth = check(table, None, &mut Files::of_disk()).unwrap();
    assert_eq!(auth.algorithms, [Algorithm::Md5, Algorithm::Sha256]);
}
