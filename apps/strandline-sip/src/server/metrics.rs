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

const DAMAGED: &str = "Rows of the store that were damaged when they were read.";
const MISSING: &str = "Rows of the store's journals that were missing when they were read.";

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
    page.gauge(
        "draining",
        "1 while what begins something is answered with 503, as somebody has asked.",
        draining,
    );
    let times = &hub.watch.borrow().handled_in;
    page.histogram(
        "answer_seconds",
        "From when a request that begins something came until it was answered or sent on.",
        times,
    );
    let counters = service.counters();
    page.counter("requests_total", "Requests that were handled.", counters.requests);
    page.counter("responses_total", "Responses that were handled.", counters.responses);
    page.counter("malformed_total", "Messages that made no sense.", counters.malformed);
    page.counter("registered_total", "REGISTERs answered with 200.", counters.registered);
    page.counter("forwarded_total", "Requests that were forwarded.", counters.forwarded);
    page.counter("calls_total", "Calls that were answered.", counters.calls);
    page.counter("refused_total", "Requests that were told that there are too many.", counters.refused);
    page.counter(
        "crowded_total",
        "Requests that were refused, and copies that were not sent, because too many bytes are kept.",
        counters.crowded,
    );
    page.gauge("users", "Users with bindings.", service.registrations().locations().len() as f64);
    page.gauge(
        "bindings",
        "Bindings: registered phones.",
        service.registrations().locations().bindings_len() as f64,
    );
    let (servers, clients) = service.transactions().counts();
    page.family("transactions", "gauge", "Transactions that are not over.");
    page.sample("transactions", "side=\"server\"", servers as f64);
    page.sample("transactions", "side=\"client\"", clients as f64);
    let kept = service.transactions().kept_bytes() as f64;
    page.gauge("kept_bytes", "Bytes of messages that transactions keep, and what waits to be sent on.", kept);
    page.gauge(
        "connections",
        "TCP connections, with and without TLS and WebSocket.",
        hub.connections.len() as f64,
    );
    let associations = hub.associations();
    page.gauge("associations", "SCTP associations.", associations as f64);
    let share = service.overload().allowed_share();
    page.gauge("allowed_share", "Share of what they have that neighbours may send (RFC 7339).", share);
    let guesses = service.access().guesses();
    page.counter("wrong_passwords_total", "Wrong passwords.", guesses.wrong);
    page.counter(
        "guesses_refused_total",
        "Credentials not looked at after too many of them.",
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
        let (time, help) = ("supervisor_commit_seconds_total", "How long those took that are durable.");
        page.counter(
            "supervisor_commits_total",
            "Commits for all processes that are durable.",
            commits.durable,
        );
        page.counter(
            "supervisor_commit_failures_total",
            "Commits for all processes that failed.",
            commits.failed,
        );
        page.family(time, "counter", help);
        page.sample(time, "", commits.time.as_secs_f64());
        page.counter("supervisor_damaged_rows_total", DAMAGED, commits.damaged);
        page.counter("supervisor_missing_rows_total", MISSING, commits.missing);
    }
    page.0
}

/// The process metrics, with their usual names, after the server's own.
fn of_process(begun_unix_secs: u64, page: &mut Page) {
    page.family("build_info", "gauge", "1: what this is.");
    page.sample("build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1.0);
    let start = begun_unix_secs as f64;
    page.gauge("process_start_time_seconds", "When it was started, in seconds since 1970.", start);
    let Some(taken) = process::taken() else { return };
    page.family("process_cpu_seconds_total", "counter", "Processor time.");
    page.sample("process_cpu_seconds_total", "", taken.cpu_secs);
    page.gauge("process_resident_memory_bytes", "Memory that it has.", taken.resident_bytes as f64);
    if let Some(files) = taken.files_max {
        page.gauge("process_max_fds", "Open files that it may have; a connection is one.", files as f64);
    }
}

fn neighbours(hub: &Hub, service: &crate::service::Service, page: &mut Page) {
    let (counters, limited) = service.overload().throttled(hub.now());
    page.gauge("neighbours_limited", "Downstream neighbours that want less now (RFC 7339).", limited as f64);
    page.counter("neighbours_heeded_total", "Values that they gave.", counters.heeded);
    page.family(
        "withheld_total",
        "counter",
        "Requests that were not sent to downstream neighbours, by reason.",
    );
    page.sample("withheld_total", "reason=\"overload\"", counters.withheld as f64);
    page.sample("withheld_total", "reason=\"silent\"", counters.silent as f64);
}

fn copies(hub: &Hub, page: &mut Page) {
    let Some(counters) = hub.hep.borrow().as_ref().map(|hep| hep.counters()) else { return };
    page.counter("hep_sent_total", "Copies of messages sent to the collector.", counters.sent);
    page.counter("hep_dropped_total", "Copies that were not sent.", counters.dropped);
}

fn names(service: &crate::service::Service, page: &mut Page) {
    let counters = service.servers().counters();
    page.family("names_total", "counter", "Names of other hosts (RFC 3263), by what came of them.");
    for (label, value) in [
        ("known", counters.known),
        ("asked", counters.asked),
        ("found", counters.found),
        ("nothing", counters.nothing),
        ("no_answer", counters.no_answer),
        ("no_room", counters.no_room),
    ] {
        page.sample("names_total", &format!("result=\"{label}\""), value as f64);
    }
    let (known, asked, waiting) = service.servers().counts();
    page.gauge("names_known", "Names of other hosts that are remembered.", known as f64);
    page.gauge("names_asked", "Questions to DNS that have no answer yet.", asked as f64);
    page.gauge("names_waiting", "Requests and responses that wait for them.", waiting as f64);
    page.counter(
        "failed_over_total",
        "Servers that were gone or busy, and passed over.",
        counters.failed_over,
    );
}

fn store(hub: &Hub, service: &crate::service::Service, page: &mut Page) {
    let Some(figures) = hub.store_figures() else { return };
    page.counter("store_commits_total", "Commits that are durable.", figures.commits);
    page.counter("store_failures_total", "Commits that failed.", figures.failures);
    page.counter("store_damaged_rows_total", DAMAGED, figures.damaged_rows);
    page.counter("store_missing_rows_total", MISSING, figures.missing_rows);
    page.family("store_commit_seconds_total", "counter", "How long those took that are durable.");
    page.sample("store_commit_seconds_total", "", figures.commit_time.as_secs_f64());
    let waits = &hub.watch.borrow().committed_in;
    page.histogram("store_wait_seconds", "How long answers waited until they were durable.", waits);
    let working = f64::from(u8::from(!figures.is_failing));
    page.gauge("store_working", "1 while the store can be written and followed.", working);
    let backlog = figures.backlog_bytes as f64;
    page.gauge("store_backlog_bytes", "Changes that are being written, or can't be.", backlog);
    if figures.followed_at > Duration::ZERO {
        page.gauge("nodes_alive", "Other nodes that are there.", service.setup().nodes_alive() as f64);
        page.family("node_info", "gauge", "1: what this node is called.");
        page.sample(
            "node_info",
            &format!("node=\"{}\"", service.setup().node_name().unwrap_or_default()),
            1.0,
        );
        page.family("node_alive", "gauge", "1 while this other node is there.");
        for node in service.setup().other_nodes() {
            // Names consist of letters, digits and a few other characters.
            let alive = f64::from(u8::from(node.is_alive));
            page.sample("node_alive", &format!("node=\"{}\"", node.name.escape_default()), alive);
        }
        let age = hub.clock.elapsed().saturating_sub(figures.followed_at).as_secs_f64();
        page.gauge("nodes_followed_seconds", "How long ago other nodes' changes were looked for.", age);
        let followed = figures.changes_followed;
        page.counter("nodes_changes_total", "Users whom other nodes have changed.", followed);
    }
}

fn inbox(hub: &Hub, page: &mut Page) {
    let now = hub.clock.elapsed();
    let (counters, waiting, longest) =
        hub.inbox(|inbox| (inbox.counters, inbox.len(), inbox.longest_wait(now)));
    page.by_urgency("came_total", "Messages that came, by urgency.", &counters.came);
    page.by_urgency("handled_total", "Messages that were handled in time, by urgency.", &counters.handled);
    page.by_urgency(
        "late_total",
        "Messages that had waited for too long, or would have, by urgency.",
        &counters.late,
    );
    page.family("dropped_total", "counter", "Messages that were not let in.");
    page.sample("dropped_total", "reason=\"no_room\"", counters.no_room as f64);
    page.sample("dropped_total", "reason=\"access\"", counters.denied as f64);
    page.sample("dropped_total", "reason=\"source\"", counters.too_many as f64);
    page.sample("dropped_total", "reason=\"untold\"", counters.untold as f64);
    let overloaded = hub.inbox(|inbox| inbox.admission.is_overloaded());
    page.gauge("overloaded", "1 while there is more than can be done.", f64::from(u8::from(overloaded)));
    let share = hub.let_through.get();
    page.gauge("let_through_share", "Share of requests over UDP that the kernel lets through.", share);
    page.gauge("waiting", "Messages that wait.", waiting as f64);
    page.gauge("longest_wait_seconds", "How long the first of them has waited.", longest.as_secs_f64());
    page.family("waited_seconds_total", "counter", "How long all have waited that were handled.");
    page.sample("waited_seconds_total", "", counters.waited_ms as f64 / 1000.0);
}
