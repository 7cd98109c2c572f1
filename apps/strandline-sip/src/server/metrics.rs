//! Metrics for Prometheus.

use std::time::Duration;

use strandline_ops::metrics::Page;

use super::hub::Hub;
use super::urgency::Urgency;

/// The commits of a supervisor, for all processes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Commits {
    pub(super) durable: u64,
    pub(super) failed: u64,
    /// Total duration of the durable commits.
    pub(super) time: Duration,
    /// Numbers of damaged and missing rows found when the file was read.
    pub(super) damaged: u64,
    pub(super) missing: u64,
}

const DAMAGED: &str = "Store rows that were damaged when read.";
const MISSING: &str = "Rows missing from the store's journals when read.";

/// The prefix of all metric names.
pub(super) const PREFIX: &str = "strandline_sip";

/// Adds a counter of messages for each urgency.
fn by_urgency(page: &mut Page, name: &str, help: &str, counts: &[u64]) {
    let counts = Urgency::ALL.iter().zip(counts);
    page.counters(name, help, "urgency", counts.map(|(urgency, count)| (urgency.name(), *count)));
}

/// Adds a gauge that is 1 or 0.
fn flag(page: &mut Page, name: &str, help: &str, is_set: bool) {
    page.gauge(name, help, f64::from(u8::from(is_set)));
}

/// All metrics as text.
pub(super) fn text(hub: &Hub) -> String {
    let mut page = Page::new(PREFIX);
    inbox(hub, &mut page);
    page.process(env!("CARGO_PKG_VERSION"), hub.clock.epoch_unix_secs);
    let service = hub.service.borrow();
    let help = "1 while the server drains: new requests are refused with 503.";
    flag(&mut page, "draining", help, service.setup().is_draining());
    let times = &hub.watch.borrow().handled_in;
    page.histogram(
        "response_seconds",
        "Time from the arrival of a new request until it was answered or forwarded.",
        times,
    );
    let counters = service.counters();
    page.counter("requests_total", "Requests handled.", counters.requests);
    page.counter("responses_total", "Responses handled.", counters.responses);
    page.counter("malformed_total", "Malformed messages.", counters.malformed);
    page.counter("registered_total", "REGISTERs answered with 200.", counters.registered);
    page.counter("forwarded_total", "Requests forwarded.", counters.forwarded);
    page.counter("calls_total", "Calls answered.", counters.calls);
    page.counter("refused_total", "Requests refused with 503 because of overload.", counters.refused);
    page.counter(
        "memory_refused_total",
        "Requests refused with 503, and copies not sent, because limits.transactions_bytes_max was reached.",
        counters.crowded,
    );
    page.gauge("users", "Users with bindings.", service.registrations().locations().len() as f64);
    page.gauge(
        "bindings",
        "Bindings (registered phones) of all users.",
        service.registrations().locations().bindings_len() as f64,
    );
    let (servers, clients) = service.transactions().counts();
    let sides = [("server", servers as f64), ("client", clients as f64)];
    page.gauges("transactions", "Transactions in progress, by side.", "side", sides);
    let kept = service.transactions().kept_bytes() as f64;
    page.gauge(
        "transaction_bytes",
        "Memory of the messages that transactions and waiting requests hold.",
        kept,
    );
    page.gauge(
        "connections",
        "Open TCP connections, including TLS and WebSocket.",
        hub.transports.connections.len() as f64,
    );
    let associations = hub.transports.associations();
    page.gauge("associations", "Established SCTP associations.", associations as f64);
    let share = service.overload().allowed_share();
    page.gauge(
        "allowed_ratio",
        "Fraction of requests that neighbours are asked to send (RFC 7339); 1 without overload.",
        share,
    );
    let guesses = service.access().guesses();
    page.counter("wrong_passwords_total", "Requests with a wrong password.", guesses.wrong);
    page.counter(
        "guesses_refused_total",
        "Requests refused without a check of their credentials, after too many wrong passwords.",
        guesses.refused,
    );
    neighbours(hub, &service, &mut page);
    copies(hub, &mut page);
    names(&service, &mut page);
    store(hub, &service, &mut page);
    page.into_text()
}

/// The metrics of a supervisor: its process, and its commits if it has a store.
pub(super) fn of_supervisor(begun_unix_secs: u64, commits: Option<&Commits>) -> String {
    let mut page = Page::new(PREFIX);
    page.process(env!("CARGO_PKG_VERSION"), begun_unix_secs);
    if let Some(commits) = commits {
        let (time, help) = ("supervisor_commit_seconds_total", "Total duration of durable commits.");
        page.counter("supervisor_commits_total", "Durable commits for all processes.", commits.durable);
        page.counter("supervisor_commit_failures_total", "Failed commits for all processes.", commits.failed);
        page.seconds_counter(time, help, commits.time);
        page.counter("supervisor_damaged_rows_total", DAMAGED, commits.damaged);
        page.counter("supervisor_missing_rows_total", MISSING, commits.missing);
    }
    page.into_text()
}

fn neighbours(hub: &Hub, service: &crate::service::Service, page: &mut Page) {
    let (counters, limited) = service.overload().throttled(hub.now());
    page.gauge(
        "neighbours_limited",
        "Downstream neighbours that currently limit requests (RFC 7339).",
        limited as f64,
    );
    page.counter(
        "neighbour_limits_total",
        "Responses of downstream neighbours with a limit.",
        counters.heeded,
    );
    let help = "Requests not sent to downstream neighbours, by reason.";
    let reasons = [("overload", counters.withheld), ("silent", counters.silent)];
    page.counters("withheld_total", help, "reason", reasons);
}

fn copies(hub: &Hub, page: &mut Page) {
    let Some(counters) = hub.hep.borrow().as_ref().map(|hep| hep.counters()) else { return };
    page.counter("hep_sent_total", "Copies of messages sent to the HEP collector.", counters.sent);
    page.counter("hep_dropped_total", "Copies of messages not sent to the HEP collector.", counters.dropped);
}

fn names(service: &crate::service::Service, page: &mut Page) {
    let counters = service.servers().counters();
    let results = [
        ("cached", counters.known),
        ("queried", counters.queries),
        ("found", counters.found),
        ("not_found", counters.nothing),
        ("no_answer", counters.no_answer),
        ("no_room", counters.no_room),
    ];
    let help = "Look-ups of other hosts' names (RFC 3263), by result.";
    page.counters("dns_lookups_total", help, "result", results);
    let (known, pending, waiting) = service.servers().counts();
    page.gauge("dns_names_cached", "Names of other hosts in the cache.", known as f64);
    page.gauge("dns_queries_pending", "DNS queries without an answer yet.", pending as f64);
    page.gauge("dns_messages_waiting", "Messages that wait for DNS.", waiting as f64);
    page.counter(
        "failed_over_total",
        "Servers passed over because they were unreachable or busy.",
        counters.failed_over,
    );
}

fn store(hub: &Hub, service: &crate::service::Service, page: &mut Page) {
    let Some(figures) = hub.store.figures() else { return };
    page.counter("store_commits_total", "Durable commits.", figures.commits);
    page.counter("store_commit_failures_total", "Failed commits.", figures.failures);
    page.counter("store_damaged_rows_total", DAMAGED, figures.damaged_rows);
    page.counter("store_missing_rows_total", MISSING, figures.missing_rows);
    let help = "Total duration of durable commits.";
    page.seconds_counter("store_commit_seconds_total", help, figures.commit_time);
    let waits = &hub.watch.borrow().committed_in;
    page.histogram("store_wait_seconds", "Time that responses waited for their commit.", waits);
    let help = "1 while the store can be written and followed, 0 if it fails.";
    flag(page, "store_working", help, !figures.is_failing);
    let backlog = figures.backlog_bytes as f64;
    page.gauge("store_backlog_bytes", "Size of the changes that are not durable yet.", backlog);
    if figures.followed_at > Duration::ZERO {
        page.gauge("nodes_alive", "Other live nodes.", service.setup().nodes_alive() as f64);
        let own = service.setup().node_name().unwrap_or_default();
        let help = "Name of this node, as a label; the value is 1.";
        page.gauges("node_info", help, "node", [(own, 1.0)]);
        let others = service.setup().other_nodes();
        let alive = others.map(|node| (node.name.as_str(), f64::from(u8::from(node.is_alive))));
        page.gauges("node_alive", "1 while this other node is alive.", "node", alive);
        let age = hub.clock.elapsed().saturating_sub(figures.followed_at).as_secs_f64();
        page.gauge("nodes_followed_seconds", "Time since the last poll for other nodes' changes.", age);
        let followed = figures.changes_followed;
        page.counter("nodes_changes_total", "Users changed by other nodes.", followed);
    }
}

fn inbox(hub: &Hub, page: &mut Page) {
    let now = hub.clock.elapsed();
    let (counters, waiting, longest) =
        hub.intake.inbox(|inbox| (inbox.counters, inbox.len(), inbox.longest_wait(now)));
    by_urgency(page, "received_total", "Messages received, by urgency.", &counters.came);
    by_urgency(page, "handled_total", "Messages handled, by urgency.", &counters.handled);
    by_urgency(
        page,
        "late_total",
        "Messages dropped or refused because they waited too long, or would have, by urgency.",
        &counters.late,
    );
    let reasons = [
        ("no_room", counters.no_room),
        ("access", counters.denied),
        ("source", counters.too_many),
        ("silent", counters.rejected_silently),
    ];
    page.counters(
        "dropped_total",
        "Messages and connections dropped on arrival, by reason.",
        "reason",
        reasons,
    );
    let overloaded = hub.intake.inbox(|inbox| inbox.admission.is_overloaded());
    flag(page, "overloaded", "1 while the server is overloaded.", overloaded);
    let share = hub.intake.let_through.get();
    page.gauge(
        "udp_filter_pass_ratio",
        "Fraction of requests over UDP that the kernel filter passes.",
        share,
    );
    page.gauge("queued", "Messages in the queues.", waiting as f64);
    page.gauge("longest_wait_seconds", "Waiting time of the oldest queued message.", longest.as_secs_f64());
    let help = "Total waiting time of handled messages.";
    page.seconds_counter("waited_seconds_total", help, Duration::from_millis(counters.waited_ms));
}
