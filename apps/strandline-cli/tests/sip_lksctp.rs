//! Interoperability tests of `strandline sip` with sipp over the SCTP of the Linux kernel. `make interop` boots
//! the kernel and runs this within its network namespace.

use std::process::Command;

use crate::sip_server::Server;

/// Runs sipp in the guest with a scenario, a port and more options. Its output goes to a file, which is printed
/// on failure.
const SIPP: &str = r#"
sipp_at() {
    scenario=$1 port=$2; shift 2
    sipp 10.132.1.1:5060 -sf $SCENARIOS/$scenario.xml -t s1 -i 10.132.1.11 -p $port -nostdin \
        -timeout 60 -timeout_error "$@" >/run/$scenario.txt 2>&1 && return
    code=$?; echo "$scenario: exit code $code"; tail -60 /run/$scenario.txt; return $code
}
trap 'echo 0 > /proc/sys/net/sctp/encap_port' EXIT
echo $ENCAPSULATION > /proc/sys/net/sctp/encap_port
"#;

const REGISTER: &str = "sipp_at register 5070 -m 100 -r 50";

/// The callee registers over an association that then ends, so the server has to set up another to reach it.
const CALL: &str = r#"
sipp_at register_bob 5071 -m 1 -key bob_port 5080 || exit
sipp_at callee 5080 -m 50 & callee=$!
until grep -q ' 5080 ' /proc/net/sctp/eps; do sleep 0.1; done
sipp_at caller 5072 -m 50 -r 25 && wait $callee
"#;

/// Runs a script in the guest, which sends to this UDP port, or over raw IP with 0.
fn in_guest(encapsulation: u16, script: &str) {
    let folder = env!("CARGO_MANIFEST_DIR");
    let script = format!("SCENARIOS={folder}/tests/sipp ENCAPSULATION={encapsulation}\n{SIPP}{script}");
    let output = Command::new(format!("{folder}/../../tests/interop/lksctp/lksctp"))
        .args(["exec", "A", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn registers_and_calls(listen: &str, style: &str, encapsulation: u16) {
    let server = Server::start(&["--listen", listen, "--sctp-style", style, "--metrics", "127.0.0.1:0"]);
    in_guest(encapsulation, REGISTER);
    in_guest(encapsulation, CALL);
    let metrics = server.metrics("/metrics");
    for line in ["strandline_sip_registered_total 101", "strandline_sip_calls_total 50"] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
}

#[test]
fn sipp_registers_and_calls_one_to_many() {
    registers_and_calls("sctp-ip:10.132.1.1:5060", "one-to-many", 0);
}

#[test]
fn sipp_registers_and_calls_one_to_one() {
    registers_and_calls("sctp-ip:10.132.1.1:5060", "one-to-one", 0);
}

#[test]
fn sipp_registers_and_calls_in_udp() {
    registers_and_calls("sctp:10.132.1.1:9899", "one-to-many", 9899);
}
