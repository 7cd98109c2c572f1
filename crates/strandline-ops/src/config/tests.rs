use super::*;

const KEPT: &[&str] = &["store", "admin", "limits.users_max"];
const FILES: &[(&str, &str)] = &[("auth.users", "auth.users: read again")];

fn table(text: &str) -> toml::Table {
    text.parse().unwrap()
}

#[test]
fn reload_reports_changes_precisely() {
    let old = "domains = ['a']\n[limits]\nusers_max = 5\nconnections_max = 7\n[store]\npath = 'a'\n[relay]\nopen = true";
    let document = Document::new(table(old), KEPT, FILES);
    assert_eq!(document.differences(&table(old)), Reload::default());
    let new = table(
        "domains = ['b']\n[limits]\nusers_max = 6\nconnections_max = 7\n[auth]\nusers = 'u'\n\
         [admin]\naddress = 'x'\n[relay]\nopen = true",
    );
    let told = document.differences(&new);
    assert_eq!(told.changed, ["domains", "auth", "auth.users: read again"]);
    let restart = |key: &str| format!("{key}: needs a new start");
    assert_eq!(told.kept, ["store", "admin", "limits.users_max"].map(restart));
    assert!(document.is_same(&new, "relay") && !document.is_same(&new, "auth.users"));
    // What was kept is still different the next time, and what changed isn't.
    document.replace(new.clone());
    let again = document.differences(&new);
    assert_eq!(again.changed, ["auth.users: read again"]);
    assert_eq!(again.kept, told.kept);
}

#[test]
fn reloads_are_counted_with_the_last_error() {
    let reloads = Reloads::default();
    reloads.note(&Err::<Reload, _>("x: is wrong"));
    assert_eq!(reloads.status(), json!({"count": 1, "last_error": "x: is wrong"}));
    reloads.note(&Ok::<_, String>(Reload::default()));
    assert_eq!(reloads.status(), json!({"count": 2, "last_error": null}));
}

#[test]
fn only_errors_fail_a_check() {
    let flaw =
        |is_error| Flaw { key: "tls.certificate".into(), message: "it ends soon".to_owned(), is_error };
    assert_eq!(flaw(true).to_string(), "tls.certificate: it ends soon");
    let code = |flaws: &[Flaw]| format!("{:?}", report(flaws));
    assert_eq!(code(&[]), code(&[flaw(false)]));
    assert_ne!(code(&[flaw(false), flaw(true)]), code(&[]));
}
