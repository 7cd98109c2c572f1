//! Tests of `strandline sip` with subscribers in a table of MariaDB, PostgreSQL, or an SQLite file.

use std::path::{Path, PathBuf};
use std::process::Command;

use strandline_sip::auth::Algorithm;

use crate::checked::check;
use crate::databases::{Database, Kind};
use crate::sip_server::{PROGRAM, Server};
use crate::udp_phone::Phone;
use crate::waiting::at_last;

impl Phone {
    /// Returns the first line of the response to a REGISTER with this password.
    fn register_as(&mut self, server: &Server, user: &str, password: &str, algorithm: Algorithm) -> String {
        let challenge = self.ask(server, user, "");
        let nonce = crate::credentials::nonce(&challenge, algorithm);
        let line = crate::credentials::line(user, password, algorithm, &nonce, 1);
        self.ask(server, user, &line).lines().next().unwrap().to_owned()
    }
}

fn configuration(folder: &Path, more: &str) -> PathBuf {
    let text = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n\
         [metrics]\naddress = \"127.0.0.1:0\"\n[relay]\nfrom = [\"127.0.0.0/8\"]\n[auth]\nrealm = \"example.com\"\n\
         algorithms = [\"MD5\", \"SHA-256\"]\ncache_unknown_secs = 1\n{more}"
    );
    let path = folder.join("sip.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns statements that create subscribers: bob and tom with a password, eve with a hash, and ann of another
/// domain.
fn statements(table: &str) -> String {
    let hash = Algorithm::Md5.hash(&[b"eve", b"example.com", b"paradise"]);
    let hash = String::from_utf8(hash).unwrap();
    format!(
        "INSERT INTO {table} (username, domain, password) VALUES ('bob', 'example.com', 'wonder:land');\
         INSERT INTO {table} (username, domain, password) VALUES ('bob', 'example.net', 'another');\
         INSERT INTO {table} (username, domain, md5) VALUES ('eve', '', '{hash}');\
         INSERT INTO {table} (username, domain, password) VALUES ('ann', 'example.net', 'wonder:land');\
         INSERT INTO {table} (username, domain, password) VALUES ('tom', '', 'x');"
    )
}

fn subscribers_prove_who_they_are(server: &Server) {
    let mut phone = Phone::new();
    let mut register =
        |user: &str, password: &str, algorithm| phone.register_as(server, user, password, algorithm);
    assert_eq!(register("bob", "wonder:land", Algorithm::Sha256), "SIP/2.0 200 OK");
    assert_eq!(register("bob", "wonder:land", Algorithm::Md5), "SIP/2.0 200 OK");
    assert_eq!(register("eve", "paradise", Algorithm::Md5), "SIP/2.0 200 OK");
    for (user, password) in [("bob", "another"), ("eve", "paradise"), ("ann", "wonder:land"), ("nobody", "")]
    {
        let answer = register(user, password, Algorithm::Sha256);
        assert!(answer.starts_with("SIP/2.0 401"), "{user}: {answer}");
    }
}

/// Any client that has seen a challenge may send names that no subscriber can have. A database that reports an
/// error for such a name is still queried for others.
fn odd_names_keep_nobody_out(server: &Server) {
    let mut phone = Phone::new();
    for (number, odd) in ["x\\\0", "\u{fffd}\u{1f4de}", &"n".repeat(400)].into_iter().enumerate() {
        let challenge = phone.ask(server, "odd", "");
        let nonce = crate::credentials::nonce(&challenge, Algorithm::Sha256);
        let answer =
            phone.ask(server, "odd", &crate::credentials::line(odd, "x", Algorithm::Sha256, &nonce, 1));
        assert!(answer.starts_with("SIP/2.0 401"), "{odd:?}: {answer}");
        let answer = phone.register_as(server, &format!("new{number}"), "x", Algorithm::Sha256);
        assert!(answer.starts_with("SIP/2.0 401"), "after {odd:?}: {answer}");
    }
}

/// Returns the first line of the response to a call from an allowed gateway of another domain.
fn called(server: &Server, user: &str, branch: &str) -> String {
    let phone = Phone::new();
    let at = phone.socket.local_addr().unwrap();
    let text = format!(
        "MESSAGE sip:{user}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{branch};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:trunk@example.org>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
         Call-ID: {branch}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    );
    phone.send(server, &text);
    phone.receive().lines().next().unwrap().to_owned()
}

const UNAVAILABLE: &str = "SIP/2.0 480 Temporarily Unavailable";

fn callees_are_told_from_nobody(server: &Server) {
    assert_eq!(called(server, "tom", "c1"), UNAVAILABLE);
    assert_eq!(called(server, "ann", "c2"), "SIP/2.0 404 Not Found");
}

fn subscribers_of(kind: Kind) {
    let mut database = Database::start(kind);
    let more = format!("subscribers = \"store\"\n{}", database.config_with_timeout(3000));
    let config = configuration(&database.folder, &more);
    let server = Server::configured(&config);
    database.sql(&statements("sip_subscribers"));
    subscribers_prove_who_they_are(&server);
    odd_names_keep_nobody_out(&server);
    // A user who exists but isn't registered gets another response than one who doesn't exist.
    callees_are_told_from_nobody(&server);
    // While the database stalls, known users are still accepted, and unknown ones are refused temporarily.
    // Bindings don't become durable meanwhile, but the password was right.
    database.stall();
    let mut phone = Phone::new();
    let answer = phone.register_as(&server, "zoe", "", Algorithm::Sha256);
    assert!(answer.starts_with("SIP/2.0 503"), "{answer}");
    let answer = phone.register_as(&server, "bob", "another", Algorithm::Sha256);
    assert!(answer.starts_with("SIP/2.0 401"), "{answer}");
    // A user who couldn't be looked up isn't reported as nonexistent.
    assert_eq!(called(&server, "yan", "c3"), UNAVAILABLE);
    database.go_on();
    database.kill();
    database.restart();
    database
        .sql("INSERT INTO sip_subscribers (username, domain, password) VALUES ('zoe', 'example.com', 'x')");
    at_last("she is known", || phone.register_as(&server, "zoe", "x", Algorithm::Sha256) == "SIP/2.0 200 OK");
}

#[test]
fn subscribers_are_in_mariadb() {
    subscribers_of(Kind::MySql);
}

#[test]
fn subscribers_are_in_postgresql() {
    subscribers_of(Kind::PostgreSql);
}

#[test]
fn subscribers_are_in_an_sqlite_file() {
    let folder = std::env::temp_dir().join(format!("strandline-subscribers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("subscribers.db");
    let more = format!("subscribers = \"sqlite:{}\"\n", file.display());
    // The file is created, and may be written while the server runs.
    let server = Server::configured(&configuration(&folder, &more));
    rusqlite::Connection::open(&file).unwrap().execute_batch(&statements("subscribers")).unwrap();
    subscribers_prove_who_they_are(&server);
    odd_names_keep_nobody_out(&server);
    callees_are_told_from_nobody(&server);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn store_and_node_errors_are_reported() {
    let mysql = "[store]\nkind = \"mysql\"\nurl = \"mysql://sip:secret@127.0.0.1/sip\"\n";
    let node = "[node]\nname = \"a\"\naddress = \"tcp:192.0.2.1:5060\"\n";
    let auth = "[auth]\nrealm = \"example.com\"\nsubscribers = \"store\"\n";
    assert_eq!(check(&format!("{mysql}{node}{auth}")), (true, String::new()));
    for (text, error) in [
        ("[store]\nkind = \"oracle\"\n".to_owned(), "store.kind: unknown kind \"oracle\""),
        ("[store]\nkind = \"redis\"\n".to_owned(), "store.url: required with kind = \"redis\", such as"),
        (mysql.replace("/sip\"", "/sip?ssl-mode=REQUIRED\""), "store.url: requests TLS: set store.tls to"),
        (mysql.replace("/sip\"", "/sip?a=b&require_ssl=true\""), "store.url: requests TLS"),
        (
            mysql.replace("mysql", "postgresql").replace("/sip\"", "/sip?sslmode=verify-full\""),
            "store.url: requests TLS",
        ),
        (mysql.replace("mysql", "redis").replace("redis://", "rediss://"), "store.url: requests TLS"),
        (format!("{mysql}tls = \"prefer\"\n"), "store.tls: unknown mode \"prefer\""),
        (
            format!("{mysql}tls = \"verify-ca\"\n"),
            "store.tls: \"verify-ca\" is not available with kind = \"mysql\"",
        ),
        (format!("{mysql}tls = \"verify-full\"\n"), "store.tls_ca: required with store.tls"),
        (format!("{mysql}tls_ca = \"/ca.pem\"\n"), "store.tls_ca: requires store.tls = "),
        (
            format!("{mysql}tls = \"verify-full\"\ntls_ca = \"/no/such/file\"\n"),
            "store.tls_ca: /no/such/file: No such file",
        ),
        (
            mysql.replace("mysql://", "redis://"),
            "store.url: expected a URL such as \"mysql://user@host:3306/database\"",
        ),
        (format!("{mysql}path = \"a.db\"\n"), "store.path: requires kind = \"sqlite\""),
        (format!("{mysql}replicas_min = 1\n"), "store.replicas_min: requires kind = \"redis\""),
        (format!("{mysql}timeout_ms = 1\n"), "store.timeout_ms: 1 is not between 50 and 30000"),
        (
            format!("{mysql}password_env = \"NO_SUCH_VARIABLE\"\n"),
            "store.password_env: the environment variable",
        ),
        (format!("{mysql}password_file = \"/no/such/file\"\n"), "/no/such/file: No such file"),
        (node.to_owned(), "node: requires a shared store"),
        (format!("{mysql}[node]\naddress = \"tcp:192.0.2.1:5060\"\n"), "node.name: required"),
        (format!("{mysql}[node]\nname = \"a\"\n"), "node.address: required"),
        (
            format!("{mysql}{}", node.replace("\"a\"", "\"a b\"")),
            "node.name: \"a b\" must be 1 to 64 letters",
        ),
        (format!("{mysql}{}", node.replace("tcp:", "")), "node.address: expected an address such as"),
        (format!("{mysql}{node}lease_ms = 1\n"), "node.lease_ms: 1 is not between 1500 and 60000"),
        (
            auth.to_owned(),
            "auth.subscribers: \"store\" requires a [store] with kind = \"mysql\" or \"postgresql\"",
        ),
        (auth.replace("subscribers = \"store\"\n", ""), "auth.users: required"),
        (
            auth.replace("\"store\"", "\"mysql://a:secret@b\""),
            "auth.subscribers: expected \"store\" or a file such as",
        ),
        (format!("{mysql}{auth}cache_secs = 0\n"), "auth.cache_secs: 0 is not between 1 and 86400"),
    ] {
        let (success, stderr) = check(&text);
        assert!(!success && stderr.contains(error), "{stderr} lacks {error}");
        assert!(!stderr.contains("secret"), "{stderr}");
    }
}

#[test]
fn missing_store_error_hides_its_password() {
    let folder = std::env::temp_dir().join(format!("strandline-stores-absent-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let port = crate::ports::free_port();
    for (kind, url) in [
        ("mysql", format!("mysql://sip:secret@127.0.0.1:{port}/sip")),
        ("postgresql", format!("postgresql://sip:secret@127.0.0.1:{port}/sip")),
        ("redis", format!("redis://:secret@127.0.0.1:{port}/0")),
    ] {
        let file = folder.join("sip.toml");
        let text = format!(
            "[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n[store]\nkind = \"{kind}\"\nurl = \"{url}\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--config"]).arg(&file).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(
            stderr.contains(&format!("opening the store ({kind}): is it running, and is store.url right?")),
            "{stderr}"
        );
        assert!(!stderr.contains("secret"), "{stderr}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
