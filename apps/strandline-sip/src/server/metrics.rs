//! Metrics for Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

use super::hub::Hub;
use super::process;
use super::steps::Steps;
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

/// Writes lines of metrics. Writing to a string doesn't fail.
struct Page(String);

impl Page {
    /// Writes the header of a metric family, whose samples follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP strandline_sip_{name} {help}\n# TYPE strandline_sip_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: &str, value: f64) {
        let _ = match label {
            "" => writeln!(self.0, "strandline_sip_{name} {value}"),
            label => writeln!(self.0, "strandline_sip_{name}{{{label}}} {value}"),
        };
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, "", value as f64);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, times: &Steps) {
        self.family(name, "histogram", help);
        for (bound, count) in times.cumulative() {
            self.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\""), count as f64);
        }
        let count = times.count() as f64;
        self.sample(&format!("{name}_bucket"), "le=\"+Inf\"", count);
        self.sample(&format!("{name}_sum"), "", times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), "", count);
    }

    fn by_urgency(&mut self, name: &str, help: &str, counts: &[u64]) {
        self.family(name, "counter", help);
        for (urgency, count) in Urgency::ALL.iter().zip(counts) {
            self.sample(name, &format!("urgency=\"{}\"", urgency.name()), *count as f64);
        }
    }
}

/// All metrics as text.
pub(super) fn text(hub: &Hub) -> String {
    let mut page = Page(String::with_capacity(16_384));
    inbox(hub, &mut page);
    of_process(hub.clock.epoch_unix_secs, &mut page);
    let service = hub.service.borrow();
    let draining = f64::from(u8::from(service.setup().is_draining()));
    page.gauge("draining", "1 while the server drains: new requests are refused with 503.", draining);
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
    page.family("transactions", "gauge", "Transactions in progress, by side.");
    page.sample("transactions", "side=\"server\"", servers as f64);
    page.sample("transactions", "side=\"client\"", clients as f64);
    let kept = service.transactions().kept_bytes() as f64;
    page.gauge(
        "transaction_bytes",
        "Memory of the messages that transactions and waiting requests hold.",
        kept,
    );
    page.gauge(
        "connections",
        "Open TCP connections, including TLS and WebSocket.",
        hub.connections.len() as f64,
    );
    let associations = hub.associations();
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
    page.0
}

/// The metrics of a supervisor: its process, and its commits if it has a store.
pub(super) fn of_supervisor(begun_unix_secs: u64, commits: Option<&Commits>) -> String {
    let mut page = Page(String::with_capacity(2048));
    of_process(begun_unix_secs, &mut page);
    if let Some(commits) = commits {
        let (time, help) = ("supervisor_commit_seconds_total", "Total duration of durable commits.");
        page.counter("supervisor_commits_total", "Durable commits for all processes.", commits.durable);
        page.counter("supervisor_commit_failures_total", "Failed commits for all processes.", commits.failed);
        page.family(time, "counter", help);
        page.sample(time, "", commits.time.as_secs_f64());
        page.counter("supervisor_damaged_rows_total", DAMAGED, commits.damaged);
        page.counter("supervisor_missing_rows_total", MISSING, commits.missing);
    }
    page.0
}

/// The process metrics, with their usual names, after the server's own.
fn of_process(begun_unix_secs: u64, page: &mut Page) {
    page.family("build_info", "gauge", "Version of the program, as a label; the value is 1.");
    page.sample("build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1.0);
    let start = begun_unix_secs as f64;
    page.gauge(
        "process_start_time_seconds",
        "Start time of the process since the Unix epoch in seconds.",
        start,
    );
    let Some(taken) = process::taken() else { return };
    page.family("process_cpu_seconds_total", "counter", "Total user and system CPU time in seconds.");
    page.sample("process_cpu_seconds_total", "", taken.cpu_secs);
    page.gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        taken.resident_bytes as f64,
    );
    if let Some(files) = taken.files_max {
        page.gauge(
            "process_max_fds",
            "Maximum number of open file descriptors; each connection takes one.",
            files as f64,
        );
    }
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
    page.family("withheld_total", "counter", "Requests not sent to downstream neighbours, by reason.");
    page.sample("withheld_total", "reason=\"overload\"", counters.withheld as f64);
    page.sample("withheld_total", "reason=\"silent\"", counters.silent as f64);
}

fn copies(hub: &Hub, page: &mut Page) {
    let Some(counters) = hub.hep.borrow().as_ref().map(|hep| hep.counters()) else { return };
    page.counter("hep_sent_total", "Copies of messages sent to the HEP collector.", counters.sent);
    page.counter("hep_dropped_total", "Copies of messages not sent to the HEP collector.", counters.dropped);
}

fn names(service: &crate::service::Service, page: &mut Page) {
    let counters = service.servers().counters();
    page.family("names_total", "counter", "Look-ups of other hosts' names (RFC 3263), by result.");
    for (label, value) in [
        ("cached", counters.known),
        ("queried", counters.asked),
        ("found", counters.found),
        ("not_found", counters.nothing),
        ("no_answer", counters.no_answer),
        ("no_room", counters.no_room),
    ] {
        page.sample("names_total", &format!("result=\"{label}\""), value as f64);
    }
    let (known, asked, waiting) = service.servers().counts();
    page.gauge("names_cached", "Names of other hosts in the cache.", known as f64);
    page.gauge("names_pending", "DNS queries without an answer yet.", asked as f64);
    page.gauge("names_waiting", "Messages that wait for DNS.", waiting as f64);
    page.counter(
        "failed_over_total",
        "Servers passed over because they were unreachable or busy.",
        counters.failed_over,
    );
}

fn store(hub: &Hub, service: &crate::service::Service, page: &mut Page) {
    let Some(figures) = hub.store_figures() else { return };
    page.counter("store_commits_total", "Durable commits.", figures.commits);
    page.counter("store_commit_failures_total", "Failed commits.", figures.failures);
    page.counter("store_damaged_rows_total", DAMAGED, figures.damaged_rows);
    page.counter("store_missing_rows_total", MISSING, figures.missing_rows);
    page.family("store_commit_seconds_total", "counter", "Total duration of durable commits.");
    page.sample("store_commit_seconds_total", "", figures.commit_time.as_secs_f64());
    let waits = &hub.watch.borrow().committed_in;
    page.histogram("store_wait_seconds", "Time that responses waited for their commit.", waits);
    let working = f64::from(u8::from(!figures.is_failing));
    page.gauge("store_working", "1 while the store can be written and followed, 0 if it fails.", working);
    let backlog = figures.backlog_bytes as f64;
    page.gauge("store_backlog_bytes", "Size of the changes that are not durable yet.", backlog);
    if figures.followed_at > Duration::ZERO {
        page.gauge("nodes_alive", "Other live nodes.", service.setup().nodes_alive() as f64);
        page.family("node_info", "gauge", "Name of this node, as a label; the value is 1.");
        page.sample(
            "node_info",
            &format!("node=\"{}\"", service.setup().node_name().unwrap_or_default()),
            1.0,
        );
        page.family("node_alive", "gauge", "1 while this other node is alive.");
        for node in service.setup().other_nodes() {
            // Names consist of letters, digits and a few other characters.
            let alive = f64::from(u8::from(node.is_alive));
            page.sample("node_alive", &format!("node=\"{}\"", node.name.escape_default()), alive);
        }
        let age = hub.clock.elapsed().saturating_sub(figures.followed_at).as_secs_f64();
        page.gauge("nodes_followed_seconds", "Time since the last poll for other nodes' changes.", age);
        let followed = figures.changes_followed;
        page.counter("nodes_changes_total", "Users changed by other nodes.", followed);
    }
}

fn inbox(hub: &Hub, page: &mut Page) {
    let now = hub.clock.elapsed();
    let (counters, waiting, longest) =
        hub.inbox(|inbox| (inbox.counters, inbox.len(), inbox.longest_wait(now)));
    page.by_urgency("received_total", "Messages received, by urgency.", &counters.came);
    page.by_urgency("handled_total", "Messages handled, by urgency.", &counters.handled);
    page.by_urgency(
        "late_total",
        "Messages dropped or refused because they waited too long, or would have, by urgency.",
        &counters.late,
    );
    page.family("dropped_total", "counter", "Messages dropped on arrival, by reason.");
    page.sample("dropped_total", "reason=\"no_room\"", counters.no_room as f64);
    page.sample("dropped_total", "reason=\"access\"", counters.denied as f64);
    page.sample("dropped_total", "reason=\"source\"", counters.too_many as f64);
    page.sample("dropped_total", "reason=\"untold\"", counters.untold as f64);
    let overloaded = hub.inbox(|inbox| inbox.admission.is_overloaded());
    page.gauge("overloaded", "1 while the server is overloaded.", f64::from(u8::from(overloaded)));
    let share = hub.let_through.get();
    page.gauge("let_through_ratio", "Fraction of requests over UDP that the kernel filter passes.", share);
    page.gauge("queued", "Messages in the queues.", waiting as f64);
    page.gauge("longest_wait_seconds", "Waiting time of the oldest queued message.", longest.as_secs_f64());
    page.family("waited_seconds_total", "counter", "Total waiting time of handled messages.");
    page.sample("waited_seconds_total", "", counters.waited_ms as f64 / 1000.0);
}
