use std::time::Duration;

use clap::Parser;
use strandline_ops::Files;

use super::*;
use crate::auth::{Algorithm, CacheSettings};
use crate::server::args::Args;
use crate::server::config::Auth;

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

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The errors of a configuration with this file of subscribers.
fn with_subscribers(path: &Path) -> Vec<Flaw> {
    let args = Line::parse_from(["sip", "--listen", "udp:127.0.0.1:0", "--domain", "example.com"]).args;
    let config = Config::of(&args, &mut Files::of_disk()).unwrap();
    let seconds = Duration::from_secs(300);
    let cache = CacheSettings { max: 100, lifetime: seconds, unknown: seconds };
    let auth = Auth {
        realm: "example.com".to_owned(),
        users: Users::Table(SubscriberTable::Sqlite(path.to_owned()), cache),
        algorithms: vec![Algorithm::Md5],
        nonce_lifetime: seconds,
        wrong_max: 10,
    };
    let config = Config { auth: Some(auth), ..config };
    flaws(&config).into_iter().filter(|flaw| flaw.is_error).collect()
}

#[test]
fn files_of_subscribers_are_tried() {
    for (path, reason) in [
        ("/no/such/subs.db", "create it first"),
        ("/", "a directory"),
        ("/dev/null", "a device"),
        ("/etc/passwd", "file is not a database"),
    ] {
        let flaws = with_subscribers(Path::new(path));
        let [flaw] = &flaws[..] else { panic!("{path}: {flaws:?}") };
        assert!(flaw.key == "auth.subscribers" && flaw.message.contains(reason), "{flaw}");
    }
    let path = std::env::temp_dir().join(format!("strandline-subscribers-{}", std::process::id()));
    assert_eq!(with_subscribers(&path), []);
    assert!(!path.exists(), "only a start creates it");
    SubscriberTable::Sqlite(path.clone()).check().unwrap();
    assert_eq!(with_subscribers(&path), []);
    std::fs::write(&path, "").unwrap();
    assert!(with_subscribers(&path)[0].message.contains("no such table"));
    std::fs::remove_file(&path).unwrap();
}
