//! Floods of refused connections.

use std::net::{SocketAddr, TcpStream, UdpSocket};

use serde_json::Value;

use crate::common::{Gateway, Home, at_last, free_address, listener, log_lines, patient, read_all};
use crate::datagrams::metric;

/// The lines of an access log with this end.
fn lines(path: &str, end: &str) -> Vec<Value> {
    log_lines(path).into_iter().filter(|line| line["end"] == end).collect()
}

/// What lines stand for.
fn sum(lines: &[Value]) -> u64 {
    lines.iter().map(|line| 1 + line["more"].as_u64().unwrap_or(0)).sum()
}

/// Asserts that lines of one source are at most ten in each second that the log covers, and its sum.
fn assert_few(lines: &[Value]) {
    let times = || lines.iter().map(|line| line["time"].as_f64().unwrap());
    let secs = times().fold(0.0, f64::max) - times().fold(f64::MAX, f64::min);
    assert!((lines.len() as f64) <= 11.0 * (secs + 2.0), "{} lines in {secs} s", lines.len());
}

/// Connects until the access log sums up what is refused. Returns how many connections that took.
fn flood(at: SocketAddr, log: &str) -> u64 {
    let mut count = 0;
    at_last("refused connections are summed up", || {
        for _ in 0..50 {
            let mut refused = patient(TcpStream::connect(at).unwrap());
            assert_eq!(read_all(&mut refused), (Vec::new(), false));
            count += 1;
        }
        lines(log, "limit").iter().any(|line| line["more"].as_u64().is_some_and(|more| more > 0))
    });
    count
}

/// A flood of refused connections becomes a few lines of the access log, and no connection is missing in their sum.
#[test]
fn floods_become_few_log_lines() {
    let server = listener();
    let (to, at_far) = (server.local_addr().unwrap(), free_address());
    let home = Home::new("refusals");
    let limits = home.write("limits.toml", "[limits]\nconnections_max = 1\n");
    let [far_log, near_log] = ["far.log", "near.log"].map(|name| home.write(name, ""));
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --allow {to} --allow-listen {at_far} --admin 127.0.0.1:0 --access-log {far_log} --config {limits}"
    ));
    let near = Gateway::start(&format!(
        "--peer far={} --forward 0={to} --reverse {at_far}={to} --admin 127.0.0.1:0 --access-log {near_log} --config {limits}",
        far.listens()
    ));
    at_last("the far gateway listens", || near.status()["reverses"][0]["state"] == "listening");
    let open = near.connect_to(&server);
    for (gateway, at, log) in [(&near, near.listener(0), &near_log), (&far, at_far, &far_log)] {
        let count = flood(at, log);
        assert_eq!(metric(gateway, "connection_ends_total{end=\"limit\"}"), count);
        at_last("all are summed up", || sum(&lines(log, "limit")) == count);
        assert_few(&lines(log, "limit"));
    }
    assert_eq!(metric(&near, "access_log_lost_lines_total"), 0);
    drop(open);
}

/// So is one of UDP clients with ever new addresses.
#[test]
fn floods_of_flows_become_few_log_lines() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let home = Home::new("refused-flows");
    let limits = home.write("limits.toml", "[limits]\nconnections_max = 16\n");
    let log = home.write("near.log", "");
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow-udp {to}"));
    let near = Gateway::start(&format!(
        "--peer far={} --forward udp/0={to} --admin 127.0.0.1:0 --access-log {log} --config {limits}",
        far.listens()
    ));
    let strangers: Vec<_> = (0..40).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    at_last("flows that gave way are summed up", || {
        strangers.iter().for_each(|stranger| drop(stranger.send_to(b"flood", near.listener(0))));
        lines(&log, "flow_limit").iter().any(|line| line["more"].as_u64().is_some_and(|more| more > 0))
    });
    at_last("none is missing", || {
        sum(&lines(&log, "flow_limit")) == metric(&near, "connection_ends_total{end=\"flow_limit\"}")
    });
    assert_few(&lines(&log, "flow_limit"));
}
