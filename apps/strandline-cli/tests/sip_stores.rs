//! Tests of `strandline sip` with its bindings in MariaDB, PostgreSQL and Redis, including stalls and crashes
//! of the database.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::databases::{Database, Kind, for_each_kind};
use crate::sip_server::{PROGRAM, Server};
use crate::udp_phone::Phone;
use crate::waiting::at_last;

/// Writes a configuration with this database, beside its folder.
fn configuration(database: &Database, more: &str) -> PathBuf {
    configuration_of(database, &database.config(), more)
}

/// Writes one whose REGISTERs don't wait for long for a database that stalls.
fn impatient(database: &Database) -> PathBuf {
    configuration_of(database, &database.config_with_timeout(3000), "")
}

fn configuration_of(database: &Database, store: &str, more: &str) -> PathBuf {
    let text = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\nprotocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n[metrics]\naddress = \"127.0.0.1:0\"\n\
         {store}{more}"
    );
    let path = database.folder.join("sip.toml");
    std::fs::write(&path, text).unwrap();
    path
}

impl Phone {
    /// Sends a REGISTER for `expires` seconds and returns its response.
    fn register(&mut self, server: &Server, user: &str, expires: u32) -> String {
        self.ask(server, user, &format!("Expires: {expires}\r\n"))
    }

    /// Retries until the REGISTER is acknowledged.
    fn register_at_last(&mut self, server: &Server, user: &str) {
        at_last("it is acknowledged", || {
            let answer = self.register(server, user, 3600);
            let again = answer.starts_with("SIP/2.0 503") && answer.contains("\r\nRetry-After: ");
            assert!(answer.starts_with("SIP/2.0 200") || again, "{answer}");
            !again
        });
    }

    /// Sends a MESSAGE, which `to` must receive.
    fn reach(&self, server: &Server, user: &str, to: &Self) {
        let at = self.socket.local_addr().unwrap();
        let number = at.port();
        self.send(
            server,
            &format!(
                "MESSAGE sip:{user}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKm{number}{user};rport\r\n\
                 From: <sip:a@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: m{number}\r\n\
                 CSeq: 1 MESSAGE\r\nContent-Length: 2\r\n\r\nhi"
            ),
        );
        let came = to.receive();
        assert!(came.starts_with(&format!("MESSAGE sip:{user}@")), "{came}");
    }
}

fn metric(server: &Server, name: &str) -> f64 {
    let page = server.metrics("/metrics");
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

/// Acknowledged bindings survive the death of the server and the database.
fn what_is_acknowledged_survives(kind: Kind) {
    let mut database = Database::start(kind);
    let config = configuration(&database, "");
    let mut server = Server::configured(&config);
    let mut phone = Phone::new();
    for user in 0..50 {
        let answer = phone.register(&server, &format!("u{user}"), 3600);
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    }
    let answer = phone.register(&server, "u0", 0);
    assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    server.kill();
    database.kill();
    database.restart();
    let mut server = Server::configured(&config);
    assert_eq!(server.users(), 49);
    assert!(metric(&server, "strandline_sip_store_working") == 1.0);
    // A second server under the same name is refused, and the first continues.
    let second = Command::new(PROGRAM).args(["sip", "--config"]).arg(&config).output().unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(
        !second.status.success() && error.contains("give each server a [node] with a unique name"),
        "{error}"
    );
    assert!(phone.register(&server, "u0", 3600).starts_with("SIP/2.0 200"));
    // After an orderly end, a successor starts at once; the journal of the first is folded into the table
    // eventually.
    assert!(server.terminate().success());
    assert_eq!(Server::configured(&config).users(), 50);
}

/// While the database stalls or is gone, phones are found, and a REGISTER is refused temporarily.
fn stalls_are_survived(kind: Kind) {
    let mut database = Database::start(kind);
    let config = impatient(&database);
    let mut server = Server::configured(&config);
    let (mut bob, mut eve, caller) = (Phone::new(), Phone::new(), Phone::new());
    bob.register_at_last(&server, "bob");
    database.stall();
    let refused = eve.register(&server, "eve", 3600);
    assert!(refused.starts_with("SIP/2.0 503") && refused.contains("\r\nRetry-After: "), "{refused}");
    caller.reach(&server, "bob", &bob);
    assert!(metric(&server, "strandline_sip_store_backlog_bytes") > 0.0);
    database.go_on();
    eve.register_at_last(&server, "eve");
    database.kill();
    let refused = bob.register(&server, "bob", 3600);
    assert!(refused.starts_with("SIP/2.0 503"), "{refused}");
    // A retransmission isn't acknowledged either, though it changes nothing in memory.
    bob.cseq -= 1;
    assert!(bob.register(&server, "bob", 3600).starts_with("SIP/2.0 503"));
    assert!(metric(&server, "strandline_sip_store_working") == 0.0);
    assert!(server.metrics("/live.json").contains("\"store_failing\":true"));
    Phone::new().reach(&server, "eve", &eve);
    database.restart();
    bob.register_at_last(&server, "bob");
    server.kill();
    assert_eq!(Server::configured(&config).users(), 2);
}

/// The store can be compacted while phones register and unregister, and be read again.
fn journals_are_folded(kind: Kind) {
    let database = Database::start(kind);
    let config = configuration(&database, "");
    let mut server = Server::configured(&config);
    let mut phone = Phone::new();
    for round in 0..3 {
        for user in 0..20 {
            let expires = if round == 2 && user % 2 == 0 { 0 } else { 3600 };
            assert!(phone.register(&server, &format!("u{user}"), expires).starts_with("SIP/2.0 200"));
        }
        if round == 1 {
            server.kill();
            server = Server::configured(&config);
            assert_eq!(server.users(), 20);
        }
    }
    server.kill();
    assert_eq!(Server::configured(&config).users(), 10);
}

/// With `replicas_min`, a binding is acknowledged when a replica has it; without replicas none is.
#[test]
fn redis_waits_for_its_replica() {
    let database = Database::start(Kind::Redis);
    let mut replica = database.replica();
    let config = impatient(&database);
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("timeout_ms", "replicas_min = 1\ntimeout_ms")).unwrap();
    let server = Server::configured(&config);
    let mut phone = Phone::new();
    phone.register_at_last(&server, "bob");
    assert!(replica.keys() > 0, "it has the binding");
    replica.kill();
    let refused = phone.register(&server, "bob", 3600);
    assert!(refused.starts_with("SIP/2.0 503") && refused.contains("\r\nRetry-After: "), "{refused}");
    replica.restart();
    phone.register_at_last(&server, "bob");
}

/// An operator deletes the last entry of the journal: its number can't be used again.
#[test]
fn a_deleted_end_of_the_stream_stops_nobody() {
    let database = Database::start(Kind::Redis);
    let config = configuration(&database, "");
    let mut server = Server::configured(&config);
    let mut phone = Phone::new();
    for user in ["a", "b", "c"] {
        phone.register_at_last(&server, user);
    }
    server.kill();
    let last = database.redis("XREVRANGE strandline:journal:sip + - COUNT 1");
    let id = last.lines().find(|line| line.ends_with("-0")).unwrap_or_else(|| panic!("{last}"));
    let deleted = database.redis(&format!("XDEL strandline:journal:sip {id}"));
    assert!(deleted.contains("\r\n:1\r\n"), "{deleted}");
    let mut server = Server::configured(&config);
    phone.register_at_last(&server, "d");
    phone.register_at_last(&server, "e");
    server.kill();
    let server = Server::configured(&config);
    assert!(server.users() >= 4, "all but perhaps the one of the deleted entry");
    assert!(metric(&server, "strandline_sip_store_missing_rows_total") == 1.0);
}

/// Checks each mode of `store.tls` with a server that accepts only TLS and whose certificate is for 127.0.0.1, and with
/// one whose certificate is for another host.
fn tls_is_verified_as_configured(kind: Kind) {
    let certificates = crate::certificates::Folder::new(&format!("{}-store", kind.name()));
    let stranger = crate::certificates::Folder::new(&format!("{}-stranger", kind.name()));
    let [ca, other_ca] = [&certificates, &stranger].map(|folder| folder.0.join("ca.pem"));
    let modes = |mode: &str, ca: &Path| match mode {
        "disable" | "require" => format!("tls = \"{mode}\"\n"),
        _ => format!("tls = \"{mode}\"\ntls_ca = \"{}\"\n", ca.display()),
    };
    for (certificate, expected) in [
        ("server", [("disable", &ca, false), ("require", &ca, true), ("verify-ca", &ca, true)]),
        (
            "server",
            [("verify-full", &ca, true), ("verify-full", &other_ca, false), ("verify-ca", &other_ca, false)],
        ),
        ("other", [("require", &ca, true), ("verify-ca", &ca, true), ("verify-full", &ca, false)]),
    ] {
        let database = Database::start_with_tls(kind, &certificates.own(certificate));
        let config = configuration(&database, "");
        let text = std::fs::read_to_string(&config).unwrap();
        for (mode, ca, accepted) in expected {
            if mode == "verify-ca" && kind == Kind::MySql {
                continue;
            }
            let case = format!("{certificate}, {mode}, {}", ca.display());
            std::fs::write(&config, text.replace("timeout_ms", &(modes(mode, ca) + "timeout_ms"))).unwrap();
            if accepted {
                let mut server = Server::configured(&config);
                Phone::new().register_at_last(&server, "bob");
                assert!(server.terminate().success(), "{case}");
            } else {
                let output = Command::new(PROGRAM).args(["sip", "--config"]).arg(&config).output().unwrap();
                let error = String::from_utf8(output.stderr).unwrap();
                assert!(!output.status.success() && error.contains("opening the store"), "{case}: {error}");
            }
        }
    }
}

for_each_kind! {
    tls_to_mariadb_is_verified: MySql tls_is_verified_as_configured;
    tls_to_postgresql_is_verified: PostgreSql tls_is_verified_as_configured;
    tls_to_redis_is_verified: Redis tls_is_verified_as_configured;
    what_is_acknowledged_survives_in_mariadb: MySql what_is_acknowledged_survives;
    what_is_acknowledged_survives_in_postgresql: PostgreSql what_is_acknowledged_survives;
    what_is_acknowledged_survives_in_redis: Redis what_is_acknowledged_survives;
    stalls_of_mariadb_are_survived: MySql stalls_are_survived;
    stalls_of_postgresql_are_survived: PostgreSql stalls_are_survived;
    stalls_of_redis_are_survived: Redis stalls_are_survived;
    journals_are_folded_in_mariadb: MySql journals_are_folded;
    journals_are_folded_in_postgresql: PostgreSql journals_are_folded;
    journals_are_folded_in_redis: Redis journals_are_folded;
}
