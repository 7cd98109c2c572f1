use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Returns the errors of a configuration, each with its place, of a file `sip.toml` and these options.
fn reported(text: &str, options: &[&str]) -> Vec<String> {
    let mut packed = Vec::new();
    for part in [b"sip.toml".as_slice(), text.as_bytes()] {
        packed.extend_from_slice(&(part.len() as u32).to_le_bytes());
        packed.extend_from_slice(part);
    }
    let args = Line::parse_from([&["sip", "--config", "sip.toml"], options].concat()).args;
    match Config::of(&args, &mut Files::from_bytes(&packed).unwrap()) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Several(all)) => all.iter().map(ToString::to_string).collect(),
        Err(one) => vec![one.to_string()],
    }
}

/// Asserts that these are the beginnings of the errors.
fn assert_reported(text: &str, options: &[&str], beginnings: &[&str]) {
    let reported = reported(text, options);
    let is_so = reported.iter().zip(beginnings).all(|(reported, beginning)| reported.starts_with(beginning));
    assert!(is_so && reported.len() == beginnings.len(), "{reported:#?}");
}

/// A file with errors in many of its lines.
const WRONG: &str = "\
domains = [\"example.com\", \"exa mple.com\"]
[timers]
c_secs = 1
t1_ms = 1
[[listen]]
protocol = \"udp\"
address = \"0.0.0.0:5060\"
[[listen]]
protocol = \"tls1\"
address = \"127.0.0.1:5061\"
style = \"one-to-one\"
[[listen]]
protocol = \"tcp\"
address = \"127.0.0.1:5060\"
style = \"one-to-one\"
[relay]
from = [\"x\", \"192.0.2.0/24\", \"192.0.2.0/33\"]
[auth]
realm = \"\"
users = \"/nowhere/users\"
algorithms = [\"SHA-1\", \"MD5\"]
wrong_max = 2000
[store]
kind = \"redis\"
path = \"/a\"
tls = \"sometimes\"
[registrar]
contacts_max = 0
expires_min_secs = 7200
[[route]]
prefix = \"+44\"
to = []
[[route]]
to = [\"tel:+1\", \"192.0.2.1\"]
registrar = true
[aliases.users]
\"b@example.com\" = []
\"a@example.net\" = [\"b@example.com\"]
[node]
poll_ms = 1
[admin]
token = \"/nowhere/token\"
";

#[test]
fn all_errors_are_reported_in_order() {
    let mut beginnings = vec![
        "sip.toml:1: domains: ",
        "sip.toml:3: timers.c_secs: ",
        "sip.toml:4: timers.t1_ms: ",
        "sip.toml:5: listen[0].advertise: ",
        "sip.toml:9: listen[1].protocol: ",
        "sip.toml:15: listen[2].style: ",
        "sip.toml:17: relay.from: expected a network such as 192.0.2.0/24 or 2001:db8::/32, not \"x\"",
        "sip.toml:17: relay.from: expected a network such as 192.0.2.0/24 or 2001:db8::/32, not \"192.0.2.0/33\"",
        "sip.toml:19: auth.realm: ",
        "sip.toml:20: auth.users: ",
        "sip.toml:21: auth.algorithms: ",
        "sip.toml:22: auth.wrong_max: ",
        "sip.toml:23: store.url: ",
        "sip.toml:25: store.path: ",
        "sip.toml:26: store.tls: ",
        "sip.toml:28: registrar.contacts_max: ",
        "sip.toml:29: registrar.expires_min_secs: ",
        "sip.toml:32: route[0].to: at least one",
        "sip.toml:33: route[1]: a route requires",
        "sip.toml:34: route[1].to: ",
        "sip.toml:34: route[1].to: ",
        "sip.toml:35: route[1].registrar: ",
        "sip.toml:37: aliases.users.\"b@example.com\": ",
        "sip.toml:38: aliases.users.\"a@example.net\": ",
        "sip.toml:39: node.name: ",
        "sip.toml:40: node.poll_ms: ",
        "sip.toml:41: admin.address: ",
    ];
    if !cfg!(feature = "databases") {
        let at = beginnings.iter().position(|reported| reported.contains("store.path"));
        beginnings.insert(at.unwrap(), "sip.toml:24: store.kind: ");
    }
    assert_reported(WRONG, &[], &beginnings);
}

#[test]
fn unknown_keys_and_wrong_types_are_reported_together() {
    let text = "domain = [\"a\"]\n[limits]\nusers_max = \"x\"\n[[listen]]\nprotocol = \"udp\"\n";
    let reported = reported(text, &[]);
    let says = ["unknown field `domain`", "invalid type: string \"x\"", "missing field `address`"];
    assert_eq!(reported.len(), says.len(), "{reported:#?}");
    assert!(reported.iter().zip(says).all(|(reported, says)| reported.contains(says)), "{reported:#?}");
}

#[test]
fn errors_of_options_come_last_without_a_line() {
    let listen = "[[listen]]\nprotocol = \"udp\"\naddress = \"192.0.2.1:5060\"\n";
    let text =
        format!("{listen}[admin]\naddress = \"192.0.2.1:1\"\ntoken = \"b\"\n[limits]\nusers_max = 0\n");
    let options = [
        "--listen",
        "udp:192.0.2.1:5061",
        "--listen",
        "tcp:[::]:5060",
        "--domain",
        "a b",
        "--admin-token",
        "a",
    ];
    let beginnings = [
        "sip.toml:8: limits.users_max: ",
        "--domain: ",
        "--advertise: required with address [::]:5060",
        "--listen: 2 entries for udp",
        "admin.token: a: ",
    ];
    assert_reported(&text, &options, &beginnings);
}

/// It is that of the option, not of the entries that it is for, and there is one.
#[test]
fn invalid_option_for_several_entries_is_reported_once() {
    let entry = |protocol: &str| format!("[[listen]]\nprotocol = {protocol:?}\naddress = \"[::]:5060\"\n");
    let text = format!("{}{}advertise = \"a b\"\n{}", entry("udp"), entry("tcp"), entry("sctp"));
    let options = ["--advertise", "c d"];
    assert_reported(&text, &options, &["sip.toml:7: listen[1].advertise: ", "--advertise: "]);
    assert_reported("", &["--listen", "udp:192.0.2.1:5060", "--advertise", "c d"], &["--advertise: "]);
}

/// An error hides no others, and causes none in what depends on the wrong value.
#[test]
fn consequences_of_errors_are_not_reported() {
    let text = "\
domains = [\"example com\"]
[[listen]]
protocol = \"tpc\"
address = \"192.0.2.1:5060\"
[[route]]
prefix = \"+\"
to = [\"sip:192.0.2.2;transport=tcp\"]
[auth]
realm = \"a\"
subscribers = \"store\"
[store]
kind = \"mysq\"
";
    let beginnings =
        ["sip.toml:1: domains: ", "sip.toml:3: listen[0].protocol: ", "sip.toml:12: store.kind: "];
    assert_reported(text, &[], &beginnings);
}
