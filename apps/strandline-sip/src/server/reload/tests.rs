#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn reload_reports_changes_precisely() {
    let old: toml::Table =
        "domains = ['a']\n[limits]\nusers_max = 5\nconnections_max = 7\n[store]\npath = 'a'\n[relay]\nopen = true"
            .parse()
            .unwrap();
    assert_eq!(differences(&old, &old), Reloaded::default());
    let new: toml::Table =
        "domains = ['b']\n[limits]\nusers_max = 6\nconnections_max = 7\n[auth]\nusers = 'u'\n\
                            [admin]\naddress = 'x'\n[relay]\nopen = true"
            .parse()
            .unwrap();
    let told = differences(&old, &new);
    assert_eq!(told.changed, ["domains", "auth", "auth.users: read again"]);
    let restart = |key: &str| format!("{key}: needs a new start");
    assert_eq!(told.kept, ["store", "admin", "limits.users_max"].map(restart));
    // At the next reload, changes that need a restart are still different, and the others aren't.
    let counting = counting(&old, new.clone());
    let again = differences(&counting, &new);
    assert_eq!(again.changed, ["auth.users: read again"]);
    assert_eq!(again.kept, told.kept);
}
